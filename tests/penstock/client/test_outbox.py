"""The outbox of a producer: order, bound, tags, and resending after a loss."""

from __future__ import annotations

from concurrent.futures import Future

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.client.errors import Unroutable
from penstock.client.outbox import Message, Outbox


def message(number: int, nbytes: int = 10) -> Message:
    return Message(bytes(nbytes), "", "q", {"message_id": str(number)}, True, Future())


def ids(messages: list[Message]) -> list[str]:
    return [each.message_id for each in messages]


def test_what_was_under_way_is_sent_again_in_front_and_in_order() -> None:
    outbox = Outbox(10, 1000)
    for number in range(3):
        outbox.add(message(number))
    assert [tag for tag, _ in outbox.publish()] == [1, 2, 3]
    outbox.add(message(3))
    assert ids(outbox.settle(1, multiple=False)) == ["0"]
    assert outbox.lost(blame=False) is None
    again = [(tag, each.message_id, each.sent) for tag, each in outbox.publish()]
    assert again == [(1, "1", 2), (2, "2", 2), (3, "3", 1)]


def test_one_that_closes_the_channel_is_found() -> None:
    """Messages that were in flight go one at a time; later ones wait behind them."""
    outbox = Outbox(10, 1000)
    for number in range(3):
        outbox.add(message(number))
    list(outbox.publish())
    assert outbox.lost(blame=True) is None
    outbox.add(message(3))
    assert [each.message_id for _, each in outbox.publish()] == ["0"]
    assert not list(outbox.publish())
    outbox.settle(1, multiple=False)
    assert [each.message_id for _, each in outbox.publish()] == ["1"]
    culprit = outbox.lost(blame=True)
    assert culprit and culprit.message_id == "1"
    assert [each.message_id for _, each in outbox.publish()] == ["2"]
    outbox.settle(1, multiple=False)
    assert [each.message_id for _, each in outbox.publish()] == ["3"]
    assert outbox.nbytes == 10


def test_one_more_message_of_any_size() -> None:
    outbox = Outbox(10, 100)
    outbox.add(message(0, nbytes=99))
    assert not outbox.full
    outbox.add(message(1, nbytes=5000))
    assert outbox.full
    list(outbox.publish())
    outbox.settle(2, multiple=True)
    assert not outbox.full and outbox.nbytes == 0


def test_a_return_belongs_to_the_first_message_of_that_id() -> None:
    outbox = Outbox(10, 100)
    outbox.add(message(0))
    outbox.add(message(0))
    list(outbox.publish())
    outbox.returned("0", Unroutable(312, "NO_ROUTE", "", "q", {}))
    first, second = outbox.settle(2, multiple=True)
    assert first.returned and not second.returned


class Machine(RuleBasedStateMachine):
    """Every message is settled once or still in the outbox, which keeps its order."""

    def __init__(self) -> None:
        super().__init__()
        self.outbox = Outbox(20, 10_000)
        self.added = 0
        self.settled: list[int] = []
        self.in_flight: dict[int, int] = {}

    @rule(nbytes=st.integers(0, 900))
    def add(self, nbytes: int) -> None:
        if not self.outbox.full:
            self.outbox.add(message(self.added, nbytes))
            self.added += 1

    @rule(count=st.integers(1, 30))
    def publish(self, count: int) -> None:
        for _, (tag, each) in zip(range(count), self.outbox.publish(), strict=False):
            self.in_flight[tag] = int(each.message_id)

    @rule(data=st.data(), multiple=st.booleans())
    def settle(self, data: st.DataObject, multiple: bool) -> None:
        if self.in_flight:
            tag = data.draw(st.sampled_from(sorted(self.in_flight)))
            found = self.outbox.settle(tag, multiple)
            gone = [t for t in self.in_flight if t == tag or (multiple and t < tag)]
            expected = [self.in_flight.pop(t) for t in sorted(gone)]
            assert [int(each.message_id) for each in found] == expected
            self.settled += expected

    @rule(blame=st.booleans())
    def lose(self, blame: bool) -> None:
        culprit = self.outbox.lost(blame)
        assert bool(culprit) == (blame and len(self.in_flight) == 1)
        if culprit:
            self.settled.append(int(culprit.message_id))
        self.in_flight.clear()

    @invariant()
    def nothing_is_lost(self) -> None:
        assert len(set(self.settled)) == len(self.settled)
        assert len(self.outbox) == self.added - len(self.settled)
        assert list(self.in_flight.values()) == sorted(self.in_flight.values())

    def teardown(self) -> None:
        left = [int(each.message_id) for each in self.outbox.clear()]
        assert sorted(left + self.settled) == list(range(self.added))
        assert left == sorted(left) and self.outbox.nbytes == 0


TestIncarnation = Machine.TestCase
