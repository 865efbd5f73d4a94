"""Sessions of users in browsers: found by their tokens only, and over when their time is, or their user's."""

from __future__ import annotations

import pytest

from console.broker import Login
from console.http import sessions
from console.http.sessions import IDLE_SECONDS, LONGEST_SECONDS, Sessions
from router.model.topology import Topology

ANN = Login("ann", ("management",), internal=True)
GUEST = Login("guest-of-ldap", ("monitoring",), internal=False)


class Clock:
    """Seconds that a test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def topology() -> Topology:
    topology = Topology()
    topology.apply(["user", "ann", "hash 1", ["management"]])
    return topology


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(topology: Topology, clock: Clock) -> Sessions:
    return Sessions(topology.users, clock)


def test_a_token_is_known_until_it_is_ended(opened: Sessions) -> None:
    token, other = opened.begin(ANN), opened.begin(ANN)
    assert token != other and len(token) >= 43
    assert opened.find(token) == ANN
    assert opened.find(token + "x") is opened.find("") is None
    opened.end(token)
    opened.end(token)
    assert opened.find(token) is None and opened.find(other) == ANN


def test_the_token_itself_is_not_kept(opened: Sessions) -> None:
    token = opened.begin(ANN)
    assert token not in repr(vars(opened)) and token.encode() not in opened._open


def test_a_session_ends_without_requests_and_in_any_case_after_a_while(opened: Sessions, clock: Clock) -> None:
    token = opened.begin(GUEST)
    began = clock.now
    while clock.now + IDLE_SECONDS - began <= LONGEST_SECONDS:
        clock.now += IDLE_SECONDS
        assert opened.find(token) == GUEST
    clock.now = began + LONGEST_SECONDS + 1
    assert opened.find(token) is None
    token = opened.begin(GUEST)
    clock.now += IDLE_SECONDS + 1
    assert opened.find(token) is None


def test_tags_are_those_of_now(opened: Sessions, topology: Topology) -> None:
    token = opened.begin(ANN)
    topology.apply(["user", "ann", "hash 1", ["administrator"]])
    assert opened.find(token) == Login("ann", ("administrator",), internal=True)


@pytest.mark.parametrize("change", [["user", "ann", "hash 2", ["management"]], ["user_gone", "ann"]])
def test_another_password_or_no_user_ends_it(opened: Sessions, topology: Topology, change: list[object]) -> None:
    token = opened.begin(ANN)
    topology.apply(change)
    assert opened.find(token) is None


def test_a_user_that_is_gone_before_the_session_begins_has_none(opened: Sessions, topology: Topology) -> None:
    topology.apply(["user_gone", "ann"])
    assert opened.find(opened.begin(ANN)) is None


def test_the_one_used_least_lately_makes_room(opened: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST", 2)
    first, second = opened.begin(GUEST), opened.begin(GUEST)
    assert opened.find(first)
    third = opened.begin(GUEST)
    assert opened.find(second) is None and opened.find(first) and opened.find(third)
