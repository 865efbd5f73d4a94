"""The inbox of a channel: its order, and the count of its methods."""

from __future__ import annotations

import pytest

from acceptor.clients.inbox import EMPTY, Inbox
from acceptor.clients.parked import ParkedMethod, ParkedRun
from penstock.amqp.spec import BY_NAME
from penstock.batch.batch_cy import BatchBuilder


def run() -> ParkedRun:
    return ParkedRun(b"\0\1q", False, BatchBuilder().finish(), 0, 0, 0)


def method(name: str) -> ParkedMethod:
    return ParkedMethod(BY_NAME[name], b"")


def test_methods_are_counted_wherever_they_are_taken_from() -> None:
    inbox = Inbox()
    items: list[ParkedRun | ParkedMethod] = [run(), method("basic_qos"), run(), method("channel_close")]
    for item in items:
        inbox.put(item)
    assert list(inbox) == items and inbox.methods == 2
    assert inbox.pop_at(3) is items[3] and inbox.methods == 1
    assert inbox.pop_at() is items[0] and inbox.methods == 1
    assert inbox.pop_at() is items[1] and inbox.methods == 0
    assert list(inbox) == [items[2]]


def test_nothing_is_taken_from_an_empty_inbox() -> None:
    with pytest.raises(IndexError):
        EMPTY.pop_at()
    assert not EMPTY and EMPTY.methods == 0
