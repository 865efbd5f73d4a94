"""The stream of changes of flow control: whoever follows it knows what is held."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from console.flow.feed import KEPT, Event, Feed

Facts = dict[str, Any]


def channel(number: int, rung: str | None = None, seconds: float = 1.0) -> Facts:
    return {
        "connection": "0.1.1", "channel": number, "vhost": "/", "user": "u", "held_seconds": seconds,
        "parked_bytes": 0, "parked_bytes_connection": 0, "causes": [{"kind": "queue", "id": 7, "text": "q"}],
        "rung": None if rung is None else {"name": rung, "seconds": seconds},
    }  # fmt: skip


def queue(name: str, depth: int) -> Facts:
    return {"vhost": "/", "name": name, "depth": depth, "stop": 10, "resume": 5, "saturated": True}


class Following:
    """Somebody who has only the snapshot and the events after it."""

    def __init__(self, snapshot: Facts) -> None:
        self.seq = snapshot["seq"]
        self.held = {(each["connection"], each["channel"]) for each in snapshot["held"]}
        self.queues = {each["name"]: each["depth"] for each in snapshot["queues"]}
        self.stops = snapshot["stops"]

    def take(self, event: Event) -> None:
        assert event.seq == self.seq + 1
        self.seq = event.seq
        facts = event.facts
        if event.kind == "held":
            self.held.add((facts["connection"], facts["channel"]))
        elif event.kind == "released":
            self.held.remove((facts["connection"], facts["channel"]))
        elif event.kind == "queue" and facts["saturated"]:
            self.queues[facts["name"]] = facts["depth"]
        elif event.kind == "queue":
            del self.queues[facts["name"]]
        else:
            self.stops = facts["stops"]


READINGS = st.lists(
    st.tuples(
        st.dictionaries(st.integers(1, 4), st.sampled_from([None, "park", "pause"])),
        st.dictionaries(st.sampled_from("abc"), st.integers(5, 12)),
        st.lists(st.integers(1, 3), max_size=2),
    ),
    max_size=12,
)


@given(READINGS, st.integers(0, 11))
def test_a_follower_knows_what_is_held_wherever_it_begins(readings: list[Any], begins: int) -> None:
    feed = Feed()
    following = None
    for number, (held, queues, stops) in enumerate(readings):
        if number == begins:
            following = Following(feed.snapshot(0))
        shown = [{"number": stop} for stop in stops]
        channels = [channel(each, rung, number) for each, rung in held.items()]
        events = feed.update(channels, [queue(name, depth) for name, depth in queues.items()], shown, number)
        if following is not None:
            for event in events:
                following.take(event)
            assert {place for _, place in following.held} == set(held)
            assert following.queues == queues
            assert following.stops == shown


@given(READINGS, st.integers(0, 40))
def test_what_was_missed_can_be_read_again(readings: list[Any], seen: int) -> None:
    feed, everything = Feed(), []
    for number, (held, queues, _) in enumerate(readings):
        channels = [channel(each, rung, number) for each, rung in held.items()]
        everything += feed.update(channels, [queue(name, depth) for name, depth in queues.items()], [], number)
    if seen <= feed.seq:
        assert feed.since(seen) == [event for event in everything if event.seq > seen]
    else:
        assert feed.since(seen) is None


def test_time_that_passes_is_no_event() -> None:
    feed = Feed()
    assert [event.kind for event in feed.update([channel(1, "park", 1.0)], [], [], 1)] == ["held"]
    assert feed.update([channel(1, "park", 2.0)], [], [], 2) == []
    assert [event.kind for event in feed.update([channel(1, "pause", 3.0)], [], [], 3)] == ["held"]
    (made,) = feed.update([channel(1, "pause", 3.0)], [], [{"number": 1, "since": 1.000001}], 3)
    assert made.kind == "stop"
    assert feed.update([channel(1, "pause", 3.0)], [], [{"number": 1, "since": 1.000002}], 3) == []
    (released, lifted) = feed.update([], [], [], 4)
    assert lifted.kind == "stop" and lifted.facts["stops"] == []
    assert released.facts == {
        "seq": 4, "at": 4, "connection": "0.1.1", "channel": 1, "vhost": "/", "user": "u", "held_seconds": 3.0,
    }  # fmt: skip


def test_old_events_are_dropped_and_then_only_a_snapshot_helps() -> None:
    feed = Feed()
    for number in range(KEPT + 1):
        feed.update([], [queue("q", number)], [], number)
    assert feed.since(0) is None
    missed = feed.since(1)
    assert missed is not None and len(missed) == KEPT
