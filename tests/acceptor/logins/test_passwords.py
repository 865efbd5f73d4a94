"""Passwords: decisions, and the bounded cost of verification."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from acceptor.logins import guesses
from acceptor.logins import passwords as tried
from acceptor.logins.guesses import Guesses
from acceptor.logins.passwords import Passwords
from penstock.control import passwords
from router.model.topology import Topology
from tests.router.making import rabbit_hash

SLOW = passwords.hashed("secret")
HERE, ELSEWHERE = "127.0.0.1", "192.0.2.1"
WRONG = "the password is wrong"


class Asking:
    """Passwords whose background work waits until the test performs it."""

    def __init__(self) -> None:
        changes = [
            ["user", "slow", SLOW, []],
            ["user", "quick", rabbit_hash("secret"), []],
            ["user", "guest", rabbit_hash("guest"), []],
            ["user", "locked", "", []],
        ]
        self.topology = Topology(1, changes)
        self.passwords = Passwords(self.topology, Guesses(), lambda: self.now)
        self.passwords.background = lambda work, done: self.work.append((work, done))
        self.work: list[tuple[Callable[[], bool], Callable[[bool], None]]] = []
        self.now = 100.0
        self.wrong = 0

    def ask(self, user: str, password: str, host: str = HERE) -> list[str]:
        """Check a password; return a list that gets the decision once it is made."""
        decided: list[str] = []
        self.passwords.check(user, password, host, decided.append)
        return decided

    def guess(self, user: str, number: int) -> None:
        """Try a wrong password that was not tried before."""
        assert self.ask(user, f"guess {number}") == []
        self.do()
        self.wrong = number + 1

    def do(self) -> None:
        while self.work:
            work, done = self.work.pop(0)
            done(work())


@pytest.fixture
def asking() -> Asking:
    return Asking()


@pytest.mark.parametrize(
    ("user", "password", "host", "reason"),
    [
        ("quick", "secret", ELSEWHERE, ""),
        ("quick", "wrong", HERE, "the password is wrong"),
        ("quick", "", HERE, "the password is wrong"),
        ("nobody", "secret", HERE, "there is no such user"),
        ("locked", "", HERE, "the password is wrong"),
    ],
)
def test_decided_at_once(asking: Asking, user: str, password: str, host: str, reason: str) -> None:
    assert asking.ask(user, password, host) == [reason]


def test_slow_hashes_are_verified_in_the_background_one_at_a_time(asking: Asking) -> None:
    right, wrong = asking.ask("slow", "secret"), asking.ask("slow", "guess")
    assert right == wrong == []
    assert len(asking.work) == 1
    asking.do()
    assert (right, wrong) == ([""], [WRONG])


def test_a_storm_costs_one_verification(asking: Asking) -> None:
    storm = [asking.ask("slow", "secret") for _ in range(1000)]
    assert len(asking.work) == 1
    asking.do()
    assert all(decided == [""] for decided in storm)
    assert asking.ask("slow", "secret") == [""]


def test_what_was_right_at_one_acceptor_lets_in_at_all(asking: Asking) -> None:
    other = Asking()
    other.passwords.known = asking.passwords.known
    asking.ask("slow", "secret")
    asking.do()
    assert other.ask("slow", "secret") == [""]


def test_a_wrong_password_is_known_for_a_while_and_counts_once(asking: Asking) -> None:
    for _ in range(3 * guesses.FREE):
        asking.ask("slow", "old")
        asking.do()
    assert asking.ask("slow", "old") == [WRONG]
    asking.now += tried.WRONG_SECONDS
    assert asking.ask("slow", "old") == []
    right = asking.ask("slow", "secret")
    asking.do()
    assert right == [""]


def test_a_changed_password_counts_at_once(asking: Asking) -> None:
    asking.ask("slow", "secret")
    asking.do()
    asking.topology.apply(["user", "slow", rabbit_hash("new"), []])
    assert asking.ask("slow", "secret") == [WRONG]
    assert asking.ask("slow", "new") == [""]


@pytest.mark.parametrize("change", [["user_gone", "slow"], ["user", "slow", "", []]])
def test_a_password_that_is_changed_while_it_is_verified_is_wrong(asking: Asking, change: list[object]) -> None:
    decided = asking.ask("slow", "secret")
    asking.topology.apply(change)
    asking.do()
    assert len(decided) == 1 and decided[0] != ""
    assert asking.ask("slow", "secret") != [""]


def test_who_guesses_is_refused_for_longer_and_longer(asking: Asking) -> None:
    for number in range(guesses.FREE):
        asking.guess("slow", number)
    for seconds in 1.0, 2.0, 4.0:
        assert asking.passwords.report() == [
            {"user": "slow", "address": HERE, "wrong": asking.wrong, "seconds": seconds}
        ]
        (reason,) = asking.ask("slow", "secret")
        assert "wrong passwords, no other one for" in reason
        asking.now += seconds
        assert asking.passwords.report() == []
        asking.guess("slow", asking.wrong)
    asking.now += 3600
    right = asking.ask("slow", "secret")
    asking.do()
    assert right == [""]
    assert asking.ask("slow", "guess", ELSEWHERE) == []


def test_many_guesses_at_once_are_few_verifications(asking: Asking) -> None:
    storm = [asking.ask("slow", f"guess {number}") for number in range(1000)]
    assert sum(not decided for decided in storm) == guesses.FREE
    others = [asking.ask("slow", "secret", ELSEWHERE), asking.ask("quick", "secret")]
    asking.do()
    assert others == [[""], [""]]
    assert all(decided != [""] for decided in storm)


def test_a_password_that_was_right_lets_in_though_its_user_is_guessed_from_there(asking: Asking) -> None:
    asking.ask("slow", "secret")
    asking.do()
    for number in range(guesses.FREE):
        asking.guess("slow", number)
    assert asking.ask("slow", "secret") == [""]


def test_who_was_wrong_least_is_next(asking: Asking) -> None:
    asking.guess("slow", 0)
    asking.ask("slow", "another guess")
    order = []
    for user, password, host in ("slow", "secret", HERE), ("slow", "secret 2", ELSEWHERE), ("quick", "guess", HERE):
        asking.passwords.check(user, password, host, lambda _, user=user, host=host: order.append((user, host)))
    asking.do()
    assert order == [("quick", HERE), ("slow", ELSEWHERE), ("slow", HERE)]


def test_a_user_that_is_not_there_waits_as_others_do(asking: Asking) -> None:
    asking.ask("slow", "guess")
    nobody = asking.ask("nobody", "guess")
    assert nobody == []
    asking.do()
    assert nobody == ["there is no such user"]
    for number in range(guesses.FREE):
        asking.ask("nobody", f"guess {number}")
    assert "no other one for" in asking.ask("nobody", "secret")[0]


def test_what_waits_and_what_is_known_is_bounded(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tried, "WAITING_MAX", 3)
    monkeypatch.setattr(tried, "WRONG_MAX", 2)
    monkeypatch.setattr(guesses, "MOST", 3)
    asking.guess("slow", 0)
    decided = [asking.ask("slow", f"try {number}", f"192.0.2.{number}") for number in range(5)]
    assert [bool(each) for each in decided] == [False, False, False, False, True]
    assert decided[-1] == ["too many logins at once"]
    first = asking.ask("quick", "secret")
    asking.do()
    assert first == [""]
    assert decided[-2] == ["too many logins at once"]
    assert len(asking.passwords._wrong) <= 2 and len(asking.passwords._guesses._of) <= 3
    assert not asking.passwords._waiting


def test_a_verification_that_fails_lets_nobody_in_and_keeps_nobody_out(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failure says nothing about the password: the next login is verified, and nothing counts as wrong."""

    def fails(stored: str, password: str) -> bool:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(passwords, "verify", fails)
        first, second = asking.ask("slow", "secret"), asking.ask("quick", "secret")
        asking.do()
    assert first == second == ["the password could not be verified"]
    third, fourth = asking.ask("slow", "secret"), asking.ask("quick", "secret")
    asking.do()
    assert third == fourth == [""] and not asking.passwords.report()


def test_a_client_that_fails_with_its_answer_keeps_nobody_from_a_turn(asking: Asking) -> None:
    def fails(reason: str) -> None:
        raise KeyError(reason)

    asking.passwords.check("slow", "secret", HERE, fails)
    second = asking.ask("slow", "other")
    with pytest.raises(KeyError):
        asking.do()
    asking.do()
    assert second == [WRONG]
