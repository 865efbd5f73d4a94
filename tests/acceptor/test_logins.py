"""Logins: who is let in, and what a verification costs at most."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from acceptor import logins
from acceptor.logins import Logins, is_loopback
from penstock import passwords
from router.topology import Topology
from tests.router.making import rabbit_hash

SLOW = passwords.hashed("secret")
HERE, ELSEWHERE = "127.0.0.1", "192.0.2.1"


class Asking:
    """Logins whose background work waits until the test does it."""

    def __init__(self) -> None:
        changes = [
            ["user", "slow", SLOW, []],
            ["user", "quick", rabbit_hash("secret"), []],
            ["user", "guest", rabbit_hash("guest"), []],
            ["user", "locked", "", []],
        ]
        self.topology = Topology(1, changes)
        self.logins = Logins(self.topology, ("guest",))
        self.logins.background = lambda work, done: self.work.append((work, done))
        self.work: list[tuple[Callable[[], bool], Callable[[bool], None]]] = []
        self.now = 100.0

    def ask(self, user: str, password: str, host: str = HERE) -> list[str]:
        """What is decided, once it is."""
        decided: list[str] = []
        self.logins.check(user, password, host, self.now, decided.append)
        return decided

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
        ("guest", "guest", HERE, ""),
        ("guest", "guest", "::1", ""),
        ("guest", "guest", ELSEWHERE, "this user may log in from this machine only"),
    ],
)
def test_decided_at_once(asking: Asking, user: str, password: str, host: str, reason: str) -> None:
    assert asking.ask(user, password, host) == [reason]


def test_slow_hashes_are_verified_in_the_background(asking: Asking) -> None:
    right, wrong = asking.ask("slow", "secret"), asking.ask("slow", "guess")
    assert right == wrong == []
    asking.do()
    assert (right, wrong) == ([""], ["the password is wrong"])


def test_a_storm_costs_one_verification(asking: Asking) -> None:
    storm = [asking.ask("slow", "secret") for _ in range(1000)]
    assert len(asking.work) == 1
    asking.do()
    assert all(decided == [""] for decided in storm)
    assert asking.ask("slow", "secret") == [""]
    asking.now += logins.REMEMBERED_SECONDS
    assert asking.ask("slow", "secret") == []


def test_a_wrong_password_is_remembered_for_less(asking: Asking) -> None:
    asking.ask("slow", "guess")
    asking.do()
    assert asking.ask("slow", "guess") == ["the password is wrong"]
    asking.now += logins.WRONG_SECONDS
    assert asking.ask("slow", "guess") == []


def test_a_changed_password_counts_at_once(asking: Asking) -> None:
    asking.ask("slow", "secret")
    asking.do()
    asking.topology.apply(["user", "slow", rabbit_hash("new"), []])
    assert asking.ask("slow", "secret") == ["the password is wrong"]
    assert asking.ask("slow", "new") == [""]


def test_what_waits_and_what_is_remembered_is_bounded(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "WAITING_MAX", 3)
    monkeypatch.setattr(logins, "REMEMBERED_MAX", 2)
    decided = [asking.ask("slow", f"guess {i}") for i in range(4)]
    assert decided == [[], [], [], ["too many logins at once"]]
    asking.do()
    assert len(asking.logins._remembered) <= 2


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
