"""A relay without sockets: what is published, acked and left there, whichever end is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.relay.core import RETRY_SECONDS, ROUTE_SECONDS, Ending, Relay
from ops.relay.delivery import Delivery, Way
from penstock.client.unconfirmed import Destination

THERE = Way(Destination("", "there"))
BACK = Way(Destination("events", "key"), Destination("", "queue"))


def delivery(tag: int, routing_key: str = "q") -> Delivery:
    return Delivery(tag, "", routing_key, b"\x00\x00", b"%d" % tag)


def relay(way: Way | None = THERE, **options: object) -> Relay:
    """A relay with both ends up and ten messages ready; those with the routing key `other` stay."""
    made = Relay(lambda each: None if each.routing_key == "other" else way, **{"prefetch": 4, "now": 0.0, **options})
    made.target_up()
    made.source_up(10)
    return made


def published(core: Relay, now: float = 0.0) -> list[tuple[int, Destination]]:
    return [(each.tag, destination) for each, destination in core.due(now)]


def tags(core: Relay, now: float = 0.0) -> list[int]:
    return [tag for tag, _ in published(core, now)]


def deliver(core: Relay, *numbers: int) -> None:
    for number in numbers:
        core.delivered(delivery(number))


def test_only_confirmed_messages_are_acked() -> None:
    core = relay()
    deliver(core, 1, 2, 3)
    assert tags(core) == [1, 2, 3] and core.acks == []
    core.settled(2, False, True, 0.0)
    assert core.acks == [2]
    core.settled(3, True, True, 0.0)
    assert core.acks == [2, 1, 3] and core.idle and core.ending is None


def test_nothing_is_published_while_the_target_holds_it() -> None:
    core = relay()
    core.hold("blocked", "full")
    deliver(core, 1)
    assert tags(core) == [] and core.held_by == "full"
    core.release("blocked")
    assert tags(core) == [1]


def test_a_nacked_message_is_published_again_later_in_its_order() -> None:
    core = relay()
    deliver(core, 1, 2)
    assert tags(core) == [1, 2]
    core.settled(1, False, False, 5.0)
    deliver(core, 3)
    assert tags(core, 5.0) == [] and core.next_at(5.0) == 5.0 + RETRY_SECONDS
    assert tags(core, 5.0 + RETRY_SECONDS) == [1, 3] and core.acks == []


def test_what_a_lost_target_has_not_confirmed_is_published_again() -> None:
    core = relay()
    deliver(core, 1, 2, 3)
    assert tags(core) == [1, 2, 3]
    core.settled(1, False, True, 0.0)
    core.target_down()
    assert tags(core) == []
    core.target_up()
    assert tags(core) == [2, 3]
    core.settled(1, False, True, 0.0)
    assert core.acks == [1, 2]


def test_confirms_of_what_a_lost_source_has_again_ack_nothing() -> None:
    core = relay()
    deliver(core, 1, 2)
    assert tags(core) == [1, 2]
    core.source_down()
    core.source_up(10)
    deliver(core, 1)
    core.settled(2, True, True, 0.0)
    assert core.acks == [] and core.confirmed == 0
    assert tags(core) == [1]
    core.settled(3, False, True, 0.0)
    assert core.acks == [1] and core.confirmed == 1


def test_it_ends_after_as_many_as_were_ready() -> None:
    core = relay(prefetch=20)
    deliver(core, *range(1, 12))
    assert tags(core) == [*range(1, 11)]
    core.settled(10, True, True, 0.0)
    assert core.ending is Ending.DONE and core.confirmed == 10


def test_it_ends_once_others_have_emptied_the_queue() -> None:
    core = relay()
    deliver(core, 1)
    core.counted(0)
    assert core.ending is None, "one is on its way"
    assert tags(core) == [1]
    core.settled(1, False, True, 0.0)
    core.counted(0)
    assert core.ending is Ending.DONE


def test_one_that_follows_goes_on() -> None:
    core = relay(follow=True, prefetch=20)
    deliver(core, *range(1, 12))
    assert len(tags(core)) == 11
    core.settled(11, True, True, 0.0)
    core.counted(0)
    assert core.ending is None


def test_it_takes_no_more_than_the_count() -> None:
    core = relay(count=2)
    deliver(core, 1, 2, 3)
    assert tags(core) == [1, 2] and core.remaining == 2
    core.settled(2, True, True, 0.0)
    assert core.ending is Ending.DONE and core.acks == [1, 2]


def test_a_search_ends_when_the_prefetch_is_full_of_others() -> None:
    core = relay()
    core.delivered(delivery(1))
    for tag in (2, 3, 4, 5):
        core.delivered(delivery(tag, "other"))
    assert tags(core) == [1] and core.ending is None
    core.settled(1, False, True, 0.0)
    assert core.ending is Ending.SEARCH_BOUND and core.left_there == 4


def test_a_stopped_one_waits_for_confirms_and_no_longer_than_its_shell() -> None:
    core = relay()
    deliver(core, 1, 2)
    assert tags(core) == [1, 2]
    deliver(core, 3)
    core.stop()
    assert tags(core) == [] and core.ending is None
    core.settled(1, False, True, 0.0)
    assert core.ending is None and core.unconfirmed == 1
    core.give_up()
    assert core.ending is Ending.STOPPED and core.acks == [1]


def test_it_asks_for_an_exchange_before_it_publishes_there() -> None:
    core = relay(BACK)
    deliver(core, 1, 2)
    assert tags(core) == [] and core.questions == ["events"]
    core.exchange_found("events", False)
    assert published(core) == [(1, Destination("", "queue")), (2, Destination("", "queue"))]


@pytest.mark.parametrize("code", [312, 313])
def test_a_message_without_a_route_takes_its_other_way_or_stays(code: int) -> None:
    core = relay(BACK)
    core.exchange_found("events", True)
    deliver(core, 1)
    assert published(core) == [(1, BACK.destination)]
    core.returned(Delivery(0, "events", "key", b"\x00\x00", b"1"), code)
    core.settled(1, False, True, 0.0)
    assert published(core) == [(1, Destination("", "queue"))]
    core.returned(Delivery(0, "", "queue", b"\x00\x00", b"1"), code)
    core.settled(2, False, True, 0.0)
    assert (core.acks, core.unroutable, core.left_there) == ([], 1, 1)


def test_a_message_that_is_returned_for_want_of_room_is_nacked_and_tried_again() -> None:
    core = relay()
    deliver(core, 1)
    assert tags(core) == [1]
    core.returned(Delivery(0, "", "there", b"\x00\x00", b"1"), 311)
    core.settled(1, False, False, 0.0)
    assert tags(core, RETRY_SECONDS) == [1]


def test_a_rate_spreads_messages() -> None:
    core = relay(rate=2.0)
    deliver(core, 1, 2, 3)
    assert tags(core) == [1] and core.next_at(0.0) == 0.5
    assert tags(core, 0.5) == [2] and tags(core, 0.75) == [] and tags(core, 1.0) == [3]


def test_nothing_is_left_of_an_empty_queue() -> None:
    core = Relay(lambda _: THERE, prefetch=4, now=0.0)
    core.source_up(0)
    assert core.ending is None, "whether the target is there is not known"
    core.target_up()
    assert core.ending is Ending.DONE


def returned(core: Relay, tag: int, confirm_tag: int, now: float = 0.0) -> None:
    """Have a published message returned for want of a route, and then confirmed."""
    core.returned(Delivery(0, "", "there", b"\x00\x00", b"%d" % tag), 312)
    core.settled(confirm_tag, False, True, now)


def test_one_that_follows_publishes_again_later_what_had_no_route() -> None:
    core = relay(follow=True)
    deliver(core, 1, 2)
    assert tags(core) == [1, 2]
    returned(core, 1, 1, 5.0)
    core.settled(2, False, True, 5.0)
    assert (core.acks, core.unroutable, core.is_held(5.0)) == ([2], 1, False)
    assert core.waits_for(5.0) == "the target has no route for 1 of the messages"
    deliver(core, 3)
    assert tags(core, 6.0) == [3], "others go on"
    assert core.next_at(6.0) == 5.0 + ROUTE_SECONDS
    deliver(core, 4)
    assert tags(core, 5.0 + ROUTE_SECONDS) == [1, 4]
    assert core.unroutable == core.left_there == 0
    core.settled(5, True, True, 5.0 + ROUTE_SECONDS)
    assert core.acks == [2, 3, 1, 4] and core.ending is None


def test_as_many_without_a_route_as_the_prefetch_hold_it() -> None:
    core = relay(follow=True)
    deliver(core, 1, 2, 3, 4)
    assert tags(core) == [1, 2, 3, 4]
    for tag in (1, 2, 3, 4):
        returned(core, tag, tag)
    assert (core.ending, core.is_held(0.0), core.unroutable) == (None, True, 4)
    core.target_down()
    core.target_up()
    assert tags(core, ROUTE_SECONDS - 1) == [] and tags(core, ROUTE_SECONDS) == [1, 2, 3, 4]
    core.source_down()
    assert core.unroutable == 0 and core.waits_for(ROUTE_SECONDS) == "the target confirms nothing"


def test_what_has_no_route_keeps_none_from_stopping() -> None:
    core = relay(follow=True)
    deliver(core, 1)
    assert tags(core) == [1]
    returned(core, 1, 1)
    core.stop()
    assert core.ending is Ending.STOPPED and core.next_at(0.0) is None


def test_a_source_that_is_lost_again_and_again_does_not_fill_the_memory() -> None:
    """A target that confirms nothing gets no more than the prefetch."""
    core = relay(follow=True)
    sent = 0
    for _ in range(5):
        deliver(core, 1, 2, 3, 4)
        sent += len(tags(core))
        core.source_down()
        core.source_up(10)
    assert sent == core.unconfirmed == 4 and core.is_held(0.0)
    deliver(core, 1, 2)
    core.settled(4, True, True, 0.0)
    assert core.acks == [] and tags(core) == [1, 2]


def test_what_keeps_it_from_publishing_is_said() -> None:
    core = relay(follow=True)
    assert not core.is_held(0.0) and core.waits_for(0.0) == "" and core.up
    core.hold("flow", "channel.flow of h")
    assert core.is_held(0.0) and core.waits_for(0.0) == "channel.flow of h"
    core.release("flow")
    deliver(core, 1)
    assert tags(core) == [1]
    core.settled(1, False, False, 3.0)
    assert core.is_held(3.0) and core.waits_for(3.0) == "the target rejects messages"
    assert not core.is_held(3.0 + RETRY_SECONDS)
    core.target_down()
    assert not core.up


class Broker:
    """A source and a target that lose connections, confirm late and nack."""

    def __init__(self, messages: int) -> None:
        self.queue = [*range(messages)]
        self.unacked: dict[int, int] = {}
        self.arrived: list[int] = []
        self.unconfirmed: dict[int, int] = {}
        self.delivery_tag = self.confirm_tag = 0

    def step(self, core: Relay, event: str, now: float) -> None:
        if event == "source lost":
            self.queue = sorted([*self.queue, *self.unacked.values()])
            self.unacked.clear()
            self.delivery_tag = 0
            core.source_down()
            core.source_up(len(self.queue))
        elif event == "target lost":
            self.unconfirmed.clear()
            self.confirm_tag = 0
            core.target_down()
            core.target_up()
        elif event == "deliver" and self.queue and len(self.unacked) < 4:
            self.delivery_tag += 1
            self.unacked[self.delivery_tag] = self.queue.pop(0)
            core.delivered(Delivery(self.delivery_tag, "", "q", b"", b"%d" % self.unacked[self.delivery_tag]))
        elif event == "return" and self.unconfirmed:
            tag = min(self.unconfirmed)
            number = self.unconfirmed.pop(tag)
            core.returned(Delivery(0, "", "there", b"", b"%d" % number), 312)
            core.settled(tag, False, True, now)
        elif event in ("confirm", "nack") and self.unconfirmed:
            tag = min(self.unconfirmed) if event == "confirm" else max(self.unconfirmed)
            number = self.unconfirmed.pop(tag)
            if event == "confirm":
                self.arrived.append(number)
            core.settled(tag, False, event == "confirm", now)
        for each, _ in core.due(now):
            self.confirm_tag += 1
            self.unconfirmed[self.confirm_tag] = int(each.body)
        for tag in core.acks:
            assert self.unacked.pop(tag) in self.arrived, "acked before it was confirmed"
        core.acks.clear()


EVENTS = ("deliver", "deliver", "deliver", "confirm", "confirm", "nack", "source lost", "target lost")


@given(st.lists(st.sampled_from(EVENTS), max_size=80), st.integers(1, 8))
def test_nothing_is_lost_whatever_happens(events: list[str], messages: int) -> None:
    broker = Broker(messages)
    core = Relay(lambda _: THERE, prefetch=4, now=0.0)
    core.target_up()
    core.source_up(messages)
    for at, event in enumerate([*events, *["deliver", "confirm"] * 3 * messages]):
        if core.ending is None:
            broker.step(core, event, at * 2 * RETRY_SECONDS)
    if core.ending is None:
        core.counted(len(broker.queue))
    assert core.ending is Ending.DONE
    assert set(broker.arrived) == set(range(messages)) and not broker.queue


@given(st.lists(st.sampled_from([*EVENTS, "return"]), max_size=80), st.integers(1, 8))
def test_one_that_follows_loses_nothing_and_has_no_more_than_twice_its_prefetch(events: list[str], count: int) -> None:
    broker = Broker(count)
    core = Relay(lambda _: THERE, prefetch=4, now=0.0, follow=True)
    core.target_up()
    core.source_up(count)
    for at, event in enumerate([*events, *["deliver", "confirm"] * 4 * (count + 4)]):
        broker.step(core, event, at * ROUTE_SECONDS)
        assert core.ending is None and core.unconfirmed <= 4
        assert len(broker.unacked) <= 4
    assert set(broker.arrived) == set(range(count)) and not broker.queue and not broker.unacked
