"""A place in the node, apart from the processes that fill it: the description of how the last one ended."""

from __future__ import annotations

import signal

from ops.child import how_it_ended


def test_ends_are_named() -> None:
    assert how_it_ended(1) == "exit status 1"
    assert how_it_ended(-signal.SIGSEGV) == "killed by SIGSEGV"
    assert how_it_ended(-63) == "killed by signal 63"
