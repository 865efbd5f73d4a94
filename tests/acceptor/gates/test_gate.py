"""The turns of channels at a gate: which are admitted, in which order, and with how much of the room."""

from __future__ import annotations

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from acceptor.gates.gate import SHARE, UNLIMITED, WaitingChannel, serve
from tests.acceptor.gates.waiter import Waiter


class Narrow:
    """A gate with room for `count` messages and `space` bytes."""

    opens_with_time = False
    terms = None

    def __init__(self, count: int, space: int = UNLIMITED) -> None:
        self.count = count
        self.space = space
        self.waiting: OrderedDict[WaitingChannel, None] = OrderedDict()

    def room(self) -> tuple[int, int]:
        return self.count, self.space

    some_room = room

    def admits(self, count: int, nbytes: int) -> bool:
        return count <= self.count and nbytes <= self.space

    def is_saturated(self) -> bool:
        return not self.count

    def serve(self) -> None:
        serve(self)


class Publisher(Waiter):
    """A channel that publishes as many of its parked messages as it may, and waits again with the rest.

    If `whole`, it publishes all of them at once or none, as a transaction does, and stays at the front meanwhile.
    """

    def __init__(self, gate: Narrow, name: str, wants: int, length: int = 1, whole: bool = False) -> None:
        super().__init__(name, wants, length)
        self.gate = gate
        self.whole = whole
        self.sent = 0
        gate.waiting[self] = None

    def admit(self, most: int) -> None:
        super().admit(most)
        count = min(self.wants, most, self.gate.count, self.gate.space // self.length)
        if self.whole and count < self.wants:
            count = 0
        self.sent += count
        self.wants -= count
        self.gate.count -= count
        self.gate.space -= count * self.length
        if self.wants:
            self.gate.waiting[self] = None
            if self.whole:
                self.gate.waiting.move_to_end(self, last=False)


def test_each_waiting_channel_gets_an_equal_part_of_the_room() -> None:
    gate = Narrow(1000)
    channels = [Publisher(gate, name, 2000) for name in "abcd"]
    serve(gate)
    assert [channel.sent for channel in channels] == [250] * 4
    assert list(gate.waiting) == channels


def test_room_that_one_does_not_use_goes_to_those_behind_it() -> None:
    gate = Narrow(1000)
    first, second, third = (Publisher(gate, name, wants) for name, wants in (("a", 10), ("b", 2000), ("c", 2000)))
    serve(gate)
    assert (first.sent, second.sent, third.sent) == (10, 495, 495)
    assert list(gate.waiting) == [second, third]


def test_turns_are_not_cut_below_a_useful_size() -> None:
    gate = Narrow(100)
    channels = [Publisher(gate, str(number), 2000) for number in range(10)]
    serve(gate)
    assert [channel.sent for channel in channels] == [SHARE, 100 - SHARE] + [0] * 8
    assert list(gate.waiting) == [*channels[2:], *channels[:2]], "those that got nothing are next"


def test_where_bytes_are_the_bound_turns_are_of_as_many_bytes() -> None:
    gate = Narrow(UNLIMITED, 8000)
    small, large = Publisher(gate, "small", 2000, length=10), Publisher(gate, "large", 2000, length=100)
    serve(gate)
    assert (small.sent, large.sent) == (400, 40)


def test_a_message_larger_than_its_part_is_admitted_by_itself() -> None:
    gate = Narrow(UNLIMITED, 1000)
    large, other = Publisher(gate, "large", 5, length=900), Publisher(gate, "other", 5)
    serve(gate)
    assert (large.admitted, large.sent) == ([1], 1)
    assert other.sent == 5


def test_no_channel_is_admitted_without_room() -> None:
    for gate in (Narrow(0), Narrow(5, 0)):
        channel = Publisher(gate, "a", 5)
        serve(gate)
        assert not channel.admitted and list(gate.waiting) == [channel]


def test_none_goes_before_a_channel_that_needs_more_room_at_once_than_there_is() -> None:
    gate = Narrow(100)
    transaction, other = Publisher(gate, "transaction", 150, whole=True), Publisher(gate, "other", 10)
    serve(gate)
    assert (transaction.sent, other.sent) == (0, 0)
    assert list(gate.waiting) == [transaction, other]


@given(st.integers(0, 5000), st.lists(st.integers(1, 3000), max_size=8))
def test_no_more_than_the_room_is_given_and_each_gets_one_turn(room: int, wants: list[int]) -> None:
    gate = Narrow(room)
    channels = [Publisher(gate, str(number), count) for number, count in enumerate(wants)]
    serve(gate)
    assert sum(channel.sent for channel in channels) == room - gate.count <= room
    turns = [len(channel.admitted) for channel in channels]
    assert max(turns, default=0) <= 1 and turns == sorted(turns, reverse=True)
    if sum(wants) <= room and max(wants, default=0) <= max(room // len(wants or [0]), SHARE):
        assert not gate.waiting
