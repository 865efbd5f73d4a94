"""The checker finds planted violations: a run in order passes, and each possible violation is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.checker import Checker
from tests.faults.events import (
    AtRest,
    Confirmed,
    Delivered,
    Done,
    Event,
    Fault,
    How,
    Message,
    Over,
    Refused,
    Sent,
    Settled,
    Wrong,
)
from tests.faults.plan import QueuePlan

PLAIN = QueuePlan("plain", 0)
DEAD = QueuePlan("dead", 0)
FAR = QueuePlan("far", 1, repeats=True)
QUEUES = {
    queue.name: queue
    for queue in (
        PLAIN,
        DEAD,
        FAR,
        QueuePlan("other", 1),
        QueuePlan("served by priority", 0, by_priority=True),
        QueuePlan("with dead letters", 0, dead_to="dead"),
        QueuePlan("with far dead letters", 0, dead_to="far"),
        QueuePlan("expiring", 1, dead_to="dead", dies_unread=True, unread=True),
        QueuePlan("far expiring", 0, dead_to="far", dies_unread=True, unread=True),
        QueuePlan("ring", 0, keeps=3),
        QueuePlan("last value", 0, keeps=3, by_key=True),
        QueuePlan("moved from", 0),
        QueuePlan("moved to", 0),
    )
}


def problems(*events: Event, rest: bool = True) -> list[str]:
    checker = Checker(QUEUES)
    checker.take(events)
    if rest:
        checker.take([AtRest()])
    return checker.problems


def message(number: int, publisher: str = "p") -> Message:
    return Message(publisher, number)


def sent(number: int, queue: str = "plain", incarnation: int = 1, **more: object) -> Sent:
    return Sent(message(number), (queue,), incarnation, **more)  # type: ignore[arg-type]


def published(numbers: Sequence[int], queue: str = "plain", **more: object) -> list[Event]:
    """Return events of messages that are sent and confirmed."""
    return [e for n in numbers for e in (sent(n, queue, **more), Confirmed(message(n)))]


def came(
    number: int, queue: str = "plain", incarnation: int = 1, redelivered: bool = False, reader: str = "r"
) -> Delivered:
    return Delivered(queue, reader, incarnation, message(number), redelivered)


def settled(number: int, queue: str = "plain", incarnation: int = 1, how: How = How.ACK) -> Settled:
    return Settled(queue, "r", incarnation, message(number), how)


def done(number: int, queue: str = "plain", how: How = How.ACK) -> Done:
    return Done(queue, message(number), how)


def consumed(numbers: Sequence[int], queue: str = "plain") -> list[Event]:
    """Return events of messages that are delivered and acked for good."""
    return [e for n in numbers for e in (came(n, queue), settled(n, queue), done(n, queue))]


def test_a_run_in_order() -> None:
    assert problems(*published(range(9)), *consumed(range(9))) == []


def test_loss() -> None:
    assert problems(*published([1, 2, 3]), *consumed([1, 3])) == ["plain: p#2 was confirmed and is lost"]


def test_loss_of_what_somebody_had_but_did_not_settle() -> None:
    found = problems(*published([1]), came(1), settled(1, how=How.REQUEUE))
    assert found == ["plain: p#1 was confirmed and is lost"]


def test_loss_on_one_of_two_queues() -> None:
    both = [Sent(message(1), ("plain", "other"), 1), Confirmed(message(1))]
    assert problems(*both, *consumed([1])) == ["other: p#1 was confirmed and is lost"]
    assert problems(*both, *consumed([1]), *consumed([1], "other")) == []


def test_what_was_not_confirmed_may_be_lost_or_not() -> None:
    assert problems(sent(1), sent(2), *consumed([2])) == []


def test_a_message_that_was_never_sent() -> None:
    assert problems(came(7)) == ["plain: p#7 was never published to it"]
    assert problems(*published([1]), *consumed([1]), came(1, "other")) == ["other: p#1 was never published to it"]


def test_again_after_a_safe_settlement() -> None:
    found = problems(*published([1]), *consumed([1]), came(1, incarnation=2, redelivered=True))
    assert found == ["plain: p#1 came again, its settlement was safe"]


def test_again_after_a_settlement_that_was_not_safe() -> None:
    events = [*published([1]), came(1), settled(1)]
    again = [came(1, incarnation=2, redelivered=True), settled(1, incarnation=2)]
    assert problems(*events, *again) == []
    unmarked = replace(again[0], redelivered=False)
    assert problems(*events, unmarked, again[1]) == ["plain: p#1 came again and does not say so"]


@pytest.mark.parametrize("redelivered", [False, True])
def test_again_on_the_connection_that_settled_it(redelivered: bool) -> None:
    found = problems(*published([1]), came(1), settled(1), came(1, redelivered=redelivered))
    assert found == ["plain: p#1 came again on the connection that settled it"]


def test_again_after_a_requeue() -> None:
    requeued = [came(1), settled(1, how=How.REQUEUE)]
    assert problems(*published([1]), *requeued, came(1, redelivered=True), settled(1)) == []


def test_after_a_rest() -> None:
    checker = Checker(QUEUES)
    checker.take([sent(1), AtRest(), came(1)])
    assert checker.problems == ["plain: p#1 came after the queue had been empty"]


def test_order() -> None:
    events = published([1, 2, 3])
    assert problems(*events, *consumed([1, 3, 2])) == ["plain: p#2 out of order (2 after 3 of ('r', 'p', 1, 0))"]
    late = [came(2, redelivered=True), settled(2)]
    assert problems(*events, *consumed([1, 3]), *late) == []


def test_order_is_kept_from_one_connection_of_the_reader_to_the_next() -> None:
    found = problems(*published([1, 2]), came(2), settled(2), came(1, incarnation=2), settled(1, incarnation=2))
    assert found == ["plain: p#1 out of order (1 after 2 of ('r', 'p', 1, 0))"]


def test_order_is_that_of_one_connection_of_the_publisher() -> None:
    events = [*published([1]), *published([2], incarnation=2)]
    assert problems(*events, *consumed([2, 1])) == []


def test_order_of_priorities() -> None:
    queue = "served by priority"
    events = [*published([1], queue), *published([2, 3], queue, priority=5)]
    assert problems(*events, *consumed([2, 3, 1], queue)) == []
    assert len(problems(*events, *consumed([3, 2, 1], queue))) == 1
    plain = [*published([1]), *published([2], priority=5)]
    assert len(problems(*plain, *consumed([2, 1]))) == 1


def rejected(numbers: Sequence[int], queue: str = "with dead letters") -> list[Event]:
    how = How.REJECT
    return [e for n in numbers for e in (came(n, queue), settled(n, queue, how=how), done(n, queue, how))]


def test_dead_letters() -> None:
    queue = "with dead letters"
    events = [*published([1, 2, 3], queue), *consumed([1], queue), *rejected([2, 3])]
    assert problems(*events, *consumed([2, 3], "dead")) == []
    assert problems(*events, *consumed([3], "dead")) == [f"{queue}: p#2 was confirmed and is lost"]
    assert problems(*events, *consumed([3, 2], "dead")) == [
        f"dead: p#2 out of order (1 after 2 of ('{queue}', 'r', 1))"
    ]


def test_a_reject_that_is_safe_and_led_nowhere() -> None:
    queue = "with dead letters"
    assert problems(sent(1, queue), *rejected([1])) == [f"{queue}: p#1 was rejected and is no dead letter"]
    twice = [came(1, queue), settled(1, queue), came(1, queue, incarnation=2, redelivered=True)]
    last = [settled(1, queue, incarnation=2, how=How.REJECT), done(1, queue, How.REJECT)]
    assert problems(*published([1], queue), *twice, *last) == [f"{queue}: p#1 was rejected and is no dead letter"]
    assert problems(sent(1, queue), Fault("x"), *rejected([1])) == []


def test_a_reject_where_dead_letters_go_nowhere() -> None:
    assert problems(*published([1]), came(1), settled(1, how=How.REJECT), done(1, how=How.REJECT)) == []


def test_a_dead_letter_that_nobody_rejected() -> None:
    queue = "with dead letters"
    found = problems(*published([1], queue), *consumed([1], "dead"))
    assert found == ["dead: p#1 was never published to it"]


def test_dead_letters_of_what_expired() -> None:
    events = published([1, 2], "expiring")
    assert problems(*events, *consumed([1, 2], "dead")) == []
    assert problems(*events, *consumed([1], "expiring"), *consumed([2], "dead")) == []
    assert problems(*events, *consumed([1], "dead")) == ["expiring: p#2 was confirmed and is lost"]
    assert len(problems(*events, *consumed([2, 1], "dead"))) == 1


def test_dead_letters_of_another_shard_may_repeat() -> None:
    queue = "with far dead letters"
    events = [*published([1, 2], queue), *rejected([1, 2], queue), *consumed([1, 2], "far")]
    again = came(2, "far", redelivered=True)
    assert problems(*events, again, AtRest(), again) == []
    assert problems(*events, came(2, "far")) == ["far: p#2 came again and does not say so"]
    assert problems(*events, came(2, queue, incarnation=2, redelivered=True)) == [
        f"{queue}: p#2 came again, its settlement was safe"
    ]


def test_dead_letters_of_what_expired_may_repeat_and_not_say_so() -> None:
    events = [*published([1], "far expiring"), *consumed([1], "far")]
    assert problems(*events, came(1, "far")) == []


def test_a_ring_drops_the_oldest() -> None:
    events = published(range(1, 6), "ring")
    assert problems(*events, *consumed([3, 4, 5], "ring")) == []
    assert problems(*events, *consumed([1, 2, 4, 5], "ring")) == ["ring: p#3 was confirmed and is lost"]


def test_first_deliveries_of_an_incarnation_may_not_be_noted() -> None:
    events = published([1, 2])
    again = [came(2, incarnation=2), settled(2, incarnation=2)]
    assert problems(*events, *consumed([1]), came(2), settled(2), Fault("x"), *again) == [
        "plain: p#2 came again and does not say so"
    ]
    assert problems(*events, came(1), settled(1), came(2), Fault("x"), *again) == []
    assert len(problems(*events, came(1), settled(1), came(2), *again)) == 1


@pytest.mark.parametrize(("priority", "wrong"), [(0, True), (1, False)])
def test_so_may_first_deliveries_of_a_priority(priority: int, wrong: bool) -> None:
    """Its store records how far the deliveries of each priority came."""
    queue = "served by priority"
    events = [*published([1], queue), *published([2], queue, priority=priority), *consumed([1], queue), came(2, queue)]
    again = [came(2, queue, incarnation=2), settled(2, queue, incarnation=2)]
    found = problems(*events, settled(2, queue), Fault("x"), *again)
    assert found == [f"{queue}: p#2 came again and does not say so"] * wrong


def test_the_last_of_each_key_stays_and_takes_the_place_of_the_one_before() -> None:
    events = published(range(1, 6), "last value")
    assert problems(*events, *consumed([4, 5, 3], "last value")) == []
    assert problems(*events, *consumed([4, 5], "last value")) == ["last value: p#3 was confirmed and is lost"]
    assert len(problems(*events, *consumed([4, 1, 5, 3], "last value"))) == 1


def test_a_fault_brings_back_what_a_ring_dropped() -> None:
    events = [*published(range(1, 6), "ring"), *consumed([3], "ring")]
    assert problems(*events, Fault("x"), *consumed([1, 2, 4, 5], "ring")) == []
    assert len(problems(*events, *consumed([1, 2, 4, 5], "ring"))) == 2


def test_refused() -> None:
    events = [sent(1), Refused(message(1)), sent(2), Refused(message(2))]
    assert problems(*events, *consumed([2])) == ["plain: p#2 was refused and came all the same"]


def test_a_transaction_in_part() -> None:
    parts = [sent(1, commit="a"), sent(2, "dead", commit="a"), sent(3, "other", commit="a"), sent(4, commit="b")]
    assert problems(*parts) == []
    assert problems(*parts, *consumed([1]), *consumed([2], "dead"), *consumed([3], "other")) == []
    missing = ["other: p#3 is missing of a, of which something came"]
    assert problems(*parts, *consumed([1]), *consumed([2], "dead")) == missing
    assert problems(*parts, came(1), settled(1)) == []


def moved(number: int, successor: int, incarnation: int, redelivered: bool = False) -> list[Event]:
    """Return events of a mover that takes a message and tries to replace it with another."""
    origin = message(number)
    return [
        Delivered("moved from", "mover", incarnation, origin, redelivered),
        Settled("moved from", "mover", incarnation, origin, How.ACK),
        Sent(Message("mover", successor), ("moved to",), incarnation, commit=f"mover {successor}", origin=origin),
    ]


def successor(number: int) -> list[Event]:
    at = Message("mover", number)
    return [
        Delivered("moved to", "r", 1, at, False),
        Settled("moved to", "r", 1, at, How.ACK),
        Done("moved to", at, How.ACK),
    ]


def test_moved() -> None:
    events = published([1], "moved from")
    tried, again = moved(1, 1, incarnation=1), moved(1, 2, incarnation=2, redelivered=True)
    assert problems(*events, *tried, *successor(1)) == []
    assert problems(*events, *tried, *again, *successor(2)) == []
    assert problems(*events, *tried, *successor(1)[:2], *again, *successor(2)) == []
    read = [came(1, "moved from", redelivered=True), settled(1, "moved from")]
    assert problems(*events, *tried, *read) == []
    assert problems(*events, *tried) == ["moved from: p#1 has become nothing, last had by mover (1)"]
    assert problems(events[0], *tried) == []
    for wrong in ([*again, *successor(1)], [*again, *successor(1), *successor(2)], [*read, *successor(1)]):
        assert len(problems(*events, *tried, *wrong)) >= 1


def test_moved_by_a_shard_that_died() -> None:
    """A transaction of one shard may be seen by a consumer and be undone by the shard's death. One of two may not."""
    events, (delivered, *read) = published([1], "moved from"), successor(1)
    tried, again = moved(1, 1, incarnation=1), [*moved(1, 2, incarnation=2, redelivered=True), *successor(2)]
    dies, incarnations = Fault("shard 0", frozenset({0})), Fault("shard 1", frozenset({1}))
    assert problems(*events, *tried, dies, delivered, *read, Over("x"), *again) == []
    assert problems(*events, *tried, delivered, dies, *read, Over("x"), *again) == []
    for wrong in (
        [incarnations, delivered, Over("x")],
        [dies, Over("x"), delivered],
        [dies, delivered, Over("x"), delivered],
    ):
        assert len(problems(*events, *tried, *wrong, *read, *again)) >= 1
    far = [replace(event, queue="other") if hasattr(event, "queue") else event for event in (delivered, *read)]
    sent_far = [replace(event, queues=("other",)) if isinstance(event, Sent) else event for event in tried]
    both = Fault("both", frozenset({0, 1}))
    assert len(problems(*events, *sent_far, both, *far, Over("x"), *again)) == 1


def test_what_was_unconfirmed_in_a_fault_may_come_again() -> None:
    """A message unconfirmed in a fault may be redelivered, marked, even to a reader that acked it, but not after a
    rest.
    """
    first, again = [came(1), settled(1)], [came(1, redelivered=True), settled(1)]
    assert problems(sent(1), *first, Fault("x"), *again, Over("x")) == []
    assert problems(Fault("x"), sent(1), *first, *again) == []
    unmarked = ["plain: p#1 came again and does not say so"]
    assert problems(sent(1), *first, done(1), Fault("x"), *first, Over("x")) == unmarked
    assert problems(Fault("x"), sent(1), *first, *first) == unmarked
    assert len(problems(*published([1]), *first, Fault("x"), *again)) == 1
    assert len(problems(Fault("x"), Over("x"), *published([1]), *first, *again)) == 1
    assert len(problems(sent(1), *first, Fault("x"), Over("x"), AtRest(), *again)) == 1


def test_a_dead_letter_that_was_not_kept_may_come_again() -> None:
    queue = "with dead letters"
    events = [*published([1], queue), came(1, queue), settled(1, queue, how=How.REJECT)]
    first, again = [came(1, "dead"), settled(1, "dead")], [came(1, "dead", redelivered=True), settled(1, "dead")]
    assert problems(*events, *first, Fault("x"), *again) == []
    assert problems(*events, Fault("x"), *first, *again) == []
    assert len(problems(*events, *first, done(1, "dead"), Fault("x"), *again)) == 1
    assert len(problems(*events, *first, Fault("x"), AtRest(), *again)) == 1


def test_what_a_client_found_wrong() -> None:
    assert problems(Wrong("consumer cancelled")) == ["consumer cancelled"]


RUN = [*published(range(20)), *consumed(range(20))]


@given(st.data())
def test_nothing_can_be_taken_out_twice_swapped_or_left_out(data: st.DataObject) -> None:
    """Problems are found in a good run with one delivery left out with its settlement, repeated, or swapped with
    another.
    """
    deliveries = [at for at, event in enumerate(RUN) if isinstance(event, Delivered)]
    at = data.draw(st.sampled_from(deliveries))
    run = list(RUN)
    match data.draw(st.sampled_from(["lost", "again", "order"])):
        case "lost":
            del run[at : at + 3]
        case "again":
            run.insert(data.draw(st.integers(at + 3, len(run))), run[at])
        case "order":
            earlier = data.draw(st.sampled_from([each for each in deliveries if each != at]))
            run[at], run[earlier] = run[earlier], run[at]
    assert problems(*run)


@given(st.binary(max_size=3000), st.integers(0, 3000), st.integers(0, 1 << 40))
def test_a_body_says_which_message_it_is(data: bytes, size: int, number: int) -> None:
    body = message(number).body(size)
    assert len(body) >= size
    assert Message.of_body(body) == message(number)
    for damaged in (body[:-1], body + b"\0", bytes([body[0] ^ 1]) + body[1:], data):
        with pytest.raises(ValueError):  # noqa: PT011 - any damage
            Message.of_body(damaged)
