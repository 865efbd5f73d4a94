"""Turns of handshakes: their share of the time, and who has the next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acceptor.tls.handshakes import (
    BURST_SECONDS,
    FIRST_MOST,
    QUIET_SECONDS,
    SHARE,
    UNDER_WAY_MOST,
    UNDER_WAY_MOST_ALL,
    WAITING_MOST,
    WAITING_MOST_ALL,
    Handshakes,
)

STEP = 0.0005


def served(handshakes: Handshakes[str], seconds: float, *, busy: bool, now: float = 1000.0) -> list[str]:
    """Let time pass in steps, in each of which there may be a turn; return who had one."""
    found: list[str] = []
    end = now + seconds
    while now < end:
        if busy:
            handshakes.busy = now
        client = handshakes.next(now)
        if client is not None:
            found.append(client)
            handshakes.took(STEP, now)
            handshakes.over(client.partition(" ")[0])
        now += STEP
    return found


def serve(handshakes: Handshakes[str]) -> str | None:
    """Give a turn, to its end; return whose it was."""
    client = handshakes.next(1000.0)
    if client is not None:
        handshakes.over(client.partition(" ")[0])
    return client


def crowd(handshakes: Handshakes[str], address: str, count: int) -> int:
    """Have clients of an address ask; return how many are refused."""
    return sum(not handshakes.ask(address, f"{address} {number}") for number in range(count))


def test_silent_connections_leave_all_the_time_to_handshakes() -> None:
    handshakes: Handshakes[str] = Handshakes()
    crowd(handshakes, "one", 50)
    assert len(served(handshakes, 50 * STEP + QUIET_SECONDS, busy=False)) == 50


def test_beside_busy_ones_handshakes_have_their_share() -> None:
    handshakes: Handshakes[str] = Handshakes()
    crowd(handshakes, "one", WAITING_MOST)
    seconds = 0.2
    most = (seconds * SHARE + 2 * BURST_SECONDS) / STEP
    assert 0.5 * seconds * SHARE / STEP <= len(served(handshakes, seconds, busy=True)) <= most


def test_a_storm_from_one_address_does_not_delay_another() -> None:
    handshakes: Handshakes[str] = Handshakes()
    crowd(handshakes, "storm", WAITING_MOST)
    assert handshakes.ask("other", "other")
    assert "other" in [handshakes.next(1.0), handshakes.next(1.0)]


def test_beyond_what_can_be_served_soon_clients_are_refused() -> None:
    handshakes: Handshakes[str] = Handshakes()
    assert crowd(handshakes, "storm", WAITING_MOST + 7) == 7
    assert handshakes.is_full("storm") and not handshakes.is_full("other")
    assert crowd(handshakes, "other", 5) == 0
    for number in range(WAITING_MOST_ALL + FIRST_MOST):
        handshakes.ask(f"address {number}", "client")
    assert len(handshakes) == WAITING_MOST_ALL + FIRST_MOST
    assert not handshakes.ask("one more", "client") and handshakes.is_full("one more")


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, WAITING_MOST)), max_size=60), st.integers(1, 30))
def test_a_storm_from_many_addresses_leaves_room_for_others(crowds: list[tuple[int, int]], turns: int) -> None:
    """Crowds come in any order, and some of them have their turns meanwhile."""
    handshakes: Handshakes[str] = Handshakes()
    known = set()
    for address, count in crowds:
        known.add(address)
        crowd(handshakes, f"{address}", count)
        for _ in range(turns):
            serve(handshakes)
        assert len(handshakes) <= WAITING_MOST_ALL + len(known)
    assert handshakes.ask("other", "other")
    assert "other" in [serve(handshakes) for _ in range(len(known) + 1)]


def test_who_has_gone_has_no_turn() -> None:
    handshakes: Handshakes[str] = Handshakes()
    for client in "abc":
        handshakes.ask("here", client)
    handshakes.forget("here", "a")
    handshakes.forget("here", "nobody")
    handshakes.forget("elsewhere", "b")
    assert [handshakes.next(1.0), handshakes.next(1.0), handshakes.next(1.0)] == ["b", "c", None]
    assert not handshakes


def test_so_many_are_under_way_at_once_of_an_address_and_of_all() -> None:
    handshakes: Handshakes[str] = Handshakes()

    def begun(address: str, count: int) -> int:
        clients = [f"{address} {number}" for number in range(count)]
        return sum(handshakes.ask(address, client) and handshakes.next(1.0) is not None for client in clients)

    assert begun("slow", UNDER_WAY_MOST + 5) == UNDER_WAY_MOST
    assert begun("other", 1) == 1
    handshakes.over("slow")
    assert str(handshakes.next(1.0)).startswith("slow")
    assert handshakes.next(1.0) is None
    others = UNDER_WAY_MOST_ALL // UNDER_WAY_MOST
    assert sum(begun(f"address-{number}", UNDER_WAY_MOST) for number in range(others)) < UNDER_WAY_MOST_ALL
    assert sum(handshakes.under_way.values()) == UNDER_WAY_MOST_ALL
    handshakes.over("other")
    assert "other" not in handshakes.under_way


@given(st.floats(0, 0.1), st.floats(0, 0.05))
def test_a_turn_may_begin_when_it_was_said(took: float, passed: float) -> None:
    handshakes: Handshakes[str] = Handshakes()
    handshakes.ask("here", "client")
    handshakes.took(took, 1000.0)
    now = handshakes.busy = 1000.0 + passed
    seconds = handshakes.seconds(now)
    assert 0 <= seconds <= QUIET_SECONDS
    assert (handshakes.next(now) is None) == (seconds > 0)
    if seconds:
        assert handshakes.next(now + seconds + 1e-6) == "client"


@pytest.mark.parametrize("pause", [1.0, 3600.0])
def test_a_pause_saves_no_more_than_a_burst(pause: float) -> None:
    handshakes: Handshakes[str] = Handshakes()
    handshakes.took(0.0, 1000.0)
    crowd(handshakes, "one", WAITING_MOST)
    assert len(served(handshakes, STEP * WAITING_MOST, busy=True, now=1000.0 + pause)) <= (
        BURST_SECONDS / STEP + WAITING_MOST * SHARE + 2
    )
