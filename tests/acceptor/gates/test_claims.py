"""Claims on room: those of several acceptors together, freed ones, and those that a dead acceptor leaves behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from acceptor.gates.claims import NO_PLACE, Claim, Claims
from penstock.memory.gauges import Gauges

ROOM, SPACE = 100, 5000
ACCEPTORS = 3
NAME = "queues of user 'ann'"
MANY = 5000
"""More limits than there are places."""


class Pipe:
    """The messages and bytes that an acceptor has in flight for one limit."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.in_flight_bytes = 0


class Claimant:
    """One incarnation of an acceptor that claims room under a limit."""

    def __init__(self, gauges: Gauges, acceptor: int, incarnation: int = 1) -> None:
        self.claims = Claims(gauges, acceptor, incarnation)
        self.pipe = Pipe()
        self.claim = Claim(self.claims, self.pipe)
        self.claim.at(self.claims.place_of(NAME))

    def ask(self, count: int, nbytes: int) -> tuple[int, int]:
        """Ask for room; return the messages and bytes that may be sent then."""
        self.claim.ask(count, nbytes, lambda: (ROOM, SPACE))
        return self.claim.free()

    def send(self, count: int, nbytes: int) -> None:
        self.pipe.in_flight += count
        self.pipe.in_flight_bytes += nbytes

    def report(self) -> None:
        """Report everything in flight as safe."""
        self.pipe.in_flight = self.pipe.in_flight_bytes = 0
        self.claim.settle()


@pytest.fixture
def gauges(tmp_path: Path) -> Iterator[Gauges]:
    with create(tmp_path) as made:
        yield made


def create(directory: Path) -> Gauges:
    return Gauges.create(directory / "gauges", epoch=1, acceptors=ACCEPTORS, shards=1, queues=8, pid=os.getpid())


STEP = st.tuples(
    st.integers(0, ACCEPTORS - 1), st.sampled_from(["ask", "send", "settle", "report"]), st.integers(0, 80)
)


@given(st.lists(STEP, max_size=40))
def test_together_they_never_claim_more_than_there_is_room_for(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str, int]]
) -> None:
    with create(tmp_path_factory.mktemp("claims")) as gauges:
        claimants = [Claimant(gauges, acceptor) for acceptor in range(ACCEPTORS)]
        for who, step, count in steps:
            one = claimants[who]
            if step == "ask":
                one.ask(count, 60 * count)
            elif step == "send":
                free, free_bytes = one.claim.free()
                sent = min(count, free)
                one.send(sent, min(60 * sent, free_bytes))
            elif step == "settle":
                one.claims.settle()
            else:
                one.report()
            assert sum(each.claim.count for each in claimants) <= ROOM
            assert sum(each.claim.nbytes for each in claimants) <= SPACE
            for each in claimants:
                assert each.claim.count >= each.pipe.in_flight and each.claim.nbytes >= each.pipe.in_flight_bytes


def test_a_claim_is_granted_as_far_as_others_leave_room(gauges: Gauges) -> None:
    one, other = Claimant(gauges, 0), Claimant(gauges, 1)
    assert one.ask(70, 4900) == (70, 4900)
    assert other.ask(70, 500) == (30, 100)
    assert other.ask(1, 1) == (1, 1), "beyond what it has in flight, not beyond what it claimed before"
    assert one.claim.count + other.claim.count == 71


def test_what_was_claimed_and_not_sent_is_free_at_the_end_of_the_turn(gauges: Gauges) -> None:
    one, other = Claimant(gauges, 0), Claimant(gauges, 1)
    one.ask(100, 100)
    one.send(40, 40)
    assert other.ask(100, 100)[0] == 0
    one.claims.settle()
    assert not one.claims.open and one.claim.free() == (0, 0)
    assert other.ask(100, 100)[0] == 60
    one.report()
    other.claims.settle()
    assert other.ask(100, 100)[0] == 100


def test_a_claim_that_moves_leaves_nothing_at_its_old_place(gauges: Gauges) -> None:
    one = Claimant(gauges, 0)
    old = one.claim.place
    one.ask(10, 100)
    one.send(10, 100)
    new = one.claims.place_of("another limit")
    assert new not in (old, NO_PLACE)
    one.claim.at(new)
    assert gauges.claim(old, 1, 1, 0, 0) == (0, 0)
    assert gauges.claim(new, 1, 1, 0, 0) == (10, 100), "what is in flight stays claimed"
    one.claim.drop()
    assert gauges.claim(new, 1, 1, 0, 0) == (0, 0) and one.claim.place == NO_PLACE


def test_claims_of_a_dead_incarnation_stay_until_its_successor_clears_them(gauges: Gauges) -> None:
    dead = Claimant(gauges, 0)
    dead.ask(60, 60)
    dead.send(60, 60)
    successor, other = Claimant(gauges, 0, incarnation=2), Claimant(gauges, 1)
    assert other.ask(100, 100)[0] == 40, "the messages may still arrive"
    successor.claims.succeed()
    assert other.ask(100, 100)[0] == 100


def test_a_successor_clears_claims_once(gauges: Gauges) -> None:
    """A second call leaves the claims of the next incarnation alone."""
    second = Claims(gauges, 0, 2)
    second.succeed()
    third = Claimant(gauges, 0, incarnation=3)
    third.ask(10, 10)
    second.succeed()
    assert gauges.claim(third.claim.place, 1, 1, 0, 0) == (10, 10)


def test_a_name_has_one_place_for_all_acceptors(gauges: Gauges) -> None:
    names = ["a", "b", "queue 'é'", "queue '\udc80'"]
    places = [Claims(gauges, 0, 1).place_of(name) for name in names]
    assert len({*places}) == len(names) and NO_PLACE not in places
    assert [Claims(gauges, 1, 1).place_of(name) for name in reversed(names)] == places[::-1]


def test_without_a_free_place_nothing_is_claimed_and_the_log_says_so_once(gauges: Gauges) -> None:
    claims = Claims(gauges, 0, 1)
    with capture_logs() as lines:
        places = [claims.place_of(f"limit {number}") for number in range(MANY)]
    assert places[0] != NO_PLACE and places[-2:] == [NO_PLACE] * 2
    (line,) = lines
    assert line["event"] == "no place to count what is under way: acceptors share room by what each knows"
    pipe = Pipe()
    claim = Claim(claims, pipe)
    claim.at(NO_PLACE)
    pipe.in_flight = 5
    claim.settle()
    claim.drop()
    assert (claim.count, claim.nbytes) == (0, 0)
