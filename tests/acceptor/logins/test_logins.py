"""The chain of backends: who is asked, who decides, and who may not log in from elsewhere."""

from __future__ import annotations

import pytest

from acceptor.gates.rights import InternalRights
from acceptor.logins.backend import Decided, Decision, Identity
from acceptor.logins.guesses import Guesses
from acceptor.logins.internal import InternalBackend
from acceptor.logins.logins import Logins
from acceptor.logins.passwords import NO_USER, Passwords
from router.model.topology import Topology
from tests.router.making import rabbit_hash

HERE, ELSEWHERE = "127.0.0.1", "192.0.2.1"
TOPOLOGY = Topology(
    1, [["user", "bob", rabbit_hash("secret"), []], ["user", "guest", rabbit_hash("guest"), []], ["user", "x", "", []]]
)
KEPT_OUT = "this user may log in from this machine only"


class Other:
    """A backend that knows one password, whoever sends it, and calls the user by a name of its own."""

    def __init__(self, user: str) -> None:
        self.user = user
        self.asked: list[str] = []

    def check(self, name: str, password: str, host: str, decided: Decided) -> None:
        self.asked.append(name)
        decided(self.identity() if password == "token" else "no token")

    def recognize(self, name: str, host: str, decided: Decided) -> None:
        decided("no certificates")

    def renew(self, identity: Identity, secret: str, decided: Decided) -> None:
        raise AssertionError("nothing is renewed")

    def identity(self) -> Identity:
        return Identity(InternalRights(TOPOLOGY.users, self.user), self)


def internal(*, is_alone: bool = False) -> InternalBackend:
    return InternalBackend(TOPOLOGY, Passwords(TOPOLOGY, Guesses(), lambda: 100.0), is_alone=is_alone)


def decision(logins: Logins, name: str, password: str, host: str = HERE) -> Decision:
    decided: list[Decision] = []
    logins.check(name, password, host, decided.append)
    assert len(decided) == 1
    return decided[0]


def test_the_first_backend_that_accepts_a_client_decides_what_it_may_do() -> None:
    own, other = internal(), Other("carol")
    logins = Logins([own, other], ())
    found = decision(logins, "bob", "secret")
    assert isinstance(found, Identity) and (found.rights.user, found.backend) == ("bob", own)
    found = decision(logins, "bob", "token")
    assert isinstance(found, Identity) and (found.rights.user, found.backend) == ("carol", other)
    assert other.asked == ["bob"]


def test_a_refusal_gives_the_reason_of_each_backend() -> None:
    assert decision(Logins([internal(), Other("carol")], ()), "bob", "wrong") == "the password is wrong; no token"
    assert decision(Logins([internal(is_alone=True)], ()), "nobody", "wrong") == NO_USER


def test_a_name_that_is_another_backends_costs_no_verification_and_is_no_guess() -> None:
    guesses = Guesses()
    logins = Logins([InternalBackend(TOPOLOGY, Passwords(TOPOLOGY, guesses, lambda: 100.0), is_alone=False)], ())
    for number in range(20):
        assert decision(logins, "carol", f"{number}") == NO_USER
    assert not guesses.report(100.0)


@pytest.mark.parametrize(
    ("name", "password", "host", "accepted"),
    [
        ("guest", "guest", HERE, True),
        ("guest", "guest", "::1", True),
        ("guest", "guest", ELSEWHERE, False),
        ("guest", "token", ELSEWHERE, False),
        ("anyone", "token", ELSEWHERE, False),
        ("anyone", "token", HERE, True),
        ("bob", "secret", ELSEWHERE, True),
    ],
)
def test_a_user_of_loopback_comes_from_nowhere_else_by_whatever_backend(
    name: str, password: str, host: str, accepted: bool
) -> None:
    found = decision(Logins([internal(), Other("guest")], ("guest",)), name, password, host)
    assert isinstance(found, Identity) if accepted else found == KEPT_OUT


def test_a_certificate_takes_the_place_of_a_password_and_of_nothing_else() -> None:
    logins = Logins([internal(is_alone=True)], ("guest",))
    decided: list[Decision] = []
    for name, host in (("bob", ELSEWHERE), ("x", ELSEWHERE), ("guest", HERE)):
        logins.recognize(name, host, decided.append)
    assert [found.rights.user for found in decided if isinstance(found, Identity)] == ["bob", "x", "guest"]
    decided.clear()
    for name, host in (("nobody", HERE), ("guest", ELSEWHERE), ("", HERE)):
        logins.recognize(name, host, decided.append)
    assert decided == [NO_USER, KEPT_OUT, "the certificate names no user in the part that login_from says"]
