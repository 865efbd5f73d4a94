"""A relay that a node runs, over its runs: its state, since when, and when the next run is due."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ops.relay.core import Relay
from ops.relay.delivery import Delivery, Way
from ops.relay.kept import FIRST_SECONDS, LONGEST_SECONDS, STEADY_SECONDS, Kept, State
from penstock.client.unconfirmed import Destination

THERE = Way(Destination("", "there"))


def run(*, up: bool = False) -> Relay:
    made = Relay(lambda _: THERE, prefetch=2, now=0.0, follow=True)
    if up:
        made.target_up()
        made.source_up(5)
    return made


def failed(text: str = "no queue") -> Relay:
    made = run()
    made.fail(text)
    return made


def relayed(made: Relay, *tags: int) -> None:
    """Deliver messages with these tags, and have them confirmed."""
    for tag in tags:
        made.delivered(Delivery(tag, "", "q", b"", b""))
        ((_, _),) = made.due(0.0)
        made.settled(tag, False, True, 0.0)


def test_it_connects_then_runs() -> None:
    kept, made = Kept(1.0), run()
    kept.begin(made, 2.0)
    assert (kept.state, kept.since, kept.retry_at) == (State.CONNECTING, 1.0, None)
    made.target_up()
    kept.update(3.0)
    assert kept.state is State.CONNECTING, "one side is not enough"
    made.source_up(0)
    kept.update(4.0)
    assert (kept.state, kept.since, kept.reason(4.0)) == (State.RUNNING, 4.0, "")
    made.target_down()
    kept.report("connection lost", 5.0)
    kept.update(5.0)
    assert (kept.state, kept.since, kept.reason(5.0)) == (State.CONNECTING, 5.0, "connection lost")


def test_it_is_held_as_long_as_the_target_keeps_it_from_publishing() -> None:
    kept, made = Kept(0.0), run(up=True)
    kept.begin(made, 0.0)
    made.hold("blocked", "queue full")
    kept.update(1.0)
    assert (kept.state, kept.since, kept.reason(1.0)) == (State.HELD, 1.0, "queue full")
    kept.update(2.0)
    assert kept.since == 1.0
    made.release("blocked")
    kept.update(3.0)
    assert (kept.state, kept.since) == (State.RUNNING, 3.0)


def test_a_failing_relay_stays_failing_until_both_sides_are_up() -> None:
    kept = Kept(0.0)
    kept.begin(failed(), 0.0)
    kept.end(1.0)
    assert (kept.state, kept.since, kept.reason(1.0), kept.retry_at) == (State.FAILING, 1.0, "no queue", 2.0)
    kept.begin(failed("access refused"), 2.0)
    assert (kept.state, kept.since, kept.retry_at) == (State.FAILING, 1.0, None)
    kept.end(2.5)
    assert (kept.state, kept.since, kept.reason(2.5)) == (State.FAILING, 1.0, "access refused")
    kept.begin(run(up=True), 5.0)
    assert (kept.state, kept.since, kept.reason(5.0)) == (State.RUNNING, 5.0, "")
    assert (kept.error, kept.error_at) == ("access refused", 2.5)


def test_a_run_that_cannot_begin_is_a_failure() -> None:
    kept = Kept(0.0)
    kept.refuse("no file", STEADY_SECONDS)
    kept.refuse("no file", 3 * STEADY_SECONDS)
    assert kept.retry_at == 3 * STEADY_SECONDS + 2 * FIRST_SECONDS


def test_a_stopped_run_is_followed_at_once() -> None:
    kept = Kept(0.0)
    for _ in range(3):
        kept.begin(failed(), 0.0)
        kept.end(0.0)
    made = run(up=True)
    kept.begin(made, 5.0)
    made.stop()
    kept.end(6.0)
    assert (kept.state, kept.retry_at) == (State.CONNECTING, 6.0)
    kept.begin(failed(), 6.0)
    kept.end(6.0)
    assert kept.retry_at == 6.0 + FIRST_SECONDS, "it is a first failure again"


def test_messages_of_all_runs_count() -> None:
    kept, made = Kept(0.0), run(up=True)
    kept.begin(made, 0.0)
    relayed(made, 1, 2)
    assert kept.confirmed == 2
    made.fail("gone")
    kept.end(1.0)
    assert kept.confirmed == 2
    another = run(up=True)
    kept.begin(another, 2.0)
    relayed(another, 1)
    assert kept.confirmed == 3


@given(st.lists(st.integers(0, int(2 * STEADY_SECONDS)), min_size=1, max_size=20))
def test_the_pause_doubles_from_a_first_failure_to_its_bound(lived: list[int]) -> None:
    kept, now, expected = Kept(0.0), 0.0, FIRST_SECONDS
    for seconds in lived:
        kept.begin(failed(), now)
        now += seconds
        kept.end(now)
        assert kept.retry_at is not None
        pause = kept.retry_at - now
        expected = FIRST_SECONDS if seconds >= STEADY_SECONDS else expected
        assert abs(pause - min(expected, LONGEST_SECONDS)) < 1e-6
        expected *= 2
        now = kept.retry_at
