"""A shut gate: nothing passes until it is lifted, then everything does."""

from __future__ import annotations

from acceptor.gates.gate import UNLIMITED
from tests.acceptor.gates.waiter import Shut, Waiter


def test_a_shut_gate_has_no_room_and_a_lifted_one_any() -> None:
    gate = Shut()
    assert gate.room() == gate.some_room() == (0, 0)
    assert gate.is_saturated() and not gate.admits(1, 1)
    gate.lifted = True
    assert gate.room() == gate.some_room() == (UNLIMITED, UNLIMITED)
    assert not gate.is_saturated() and gate.admits(1 << 40, 1 << 60)


def test_no_waiting_channel_is_admitted_before_it_is_lifted_and_all_are_then() -> None:
    gate = Shut()
    channels = [Waiter(name, wants=5, length=1000) for name in "abc"]
    gate.waiting.update(dict.fromkeys(channels))
    gate.serve()
    assert list(gate.waiting) == channels
    gate.lifted = True
    gate.serve()
    assert not gate.waiting
    assert all(len(channel.admitted) == 1 and channel.admitted[0] >= 5 for channel in channels)
