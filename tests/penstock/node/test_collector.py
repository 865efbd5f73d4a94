"""The garbage collector: objects that stay are not traversed again and again."""

from __future__ import annotations

import gc
import weakref

import pytest

from penstock import bus
from penstock.bus.router_client import Follower
from penstock.node import collector


class Cycle:
    def __init__(self) -> None:
        self.itself = self


def lost_cycle() -> weakref.ref[Cycle]:
    return weakref.ref(Cycle())


def many_objects() -> list[list[int]]:
    return [[number] for number in range(100 * gc.get_threshold()[0])]


def test_nothing_is_collected_while_much_is_made_and_then_it_is() -> None:
    with collector.paused():
        lost = lost_cycle()
        many_objects()
        assert lost() is not None
    many_objects()
    assert lost() is None


def test_it_goes_on_after_an_error_and_only_where_it_went_on_before() -> None:
    with pytest.raises(ValueError, match="incomplete"), collector.paused(), collector.paused():
        bus.unpack(b"")
    assert gc.isenabled()
    with collector.paused():
        with collector.paused():
            pass
        assert not gc.isenabled()


def test_a_snapshot_and_changes_are_taken_in_without_it() -> None:
    enabled = []

    def took(_version: int, _changes: list[object]) -> None:
        enabled.append(gc.isenabled())

    follower = Follower(took, took, lambda frame: None)
    follower.ask_for_snapshot()
    follower.on_reply(bus.pack([1, 1, {"changes": []}, None]))
    follower.on_change(bus.pack([2, []]))
    assert enabled == [False, False] and gc.isenabled()


def test_what_is_kept_is_looked_through_no_more() -> None:
    before = gc.get_freeze_count()
    kept = many_objects()
    collector.keep()
    try:
        assert gc.get_freeze_count() >= before + len(kept)
    finally:
        gc.unfreeze()
