"""Ladders as people write them: how long producers are held, and by which rungs."""

from __future__ import annotations

import re

import pytest

from penstock.limits.ladder import RUNGS, Ladder, Rung, ladder_of

ALL_OF_THEM = (
    "withhold 5 s, park 30s, pause 5 min, reject 10 min, close-channel 1 min, close-connection, hold-off 500 ms"
)


@pytest.mark.parametrize(
    ("text", "rungs"),
    [
        ("forever", ()),
        ("reject", (Rung("reject", None),)),
        ("park 30 s, reject", (Rung("park", 30), Rung("reject", None))),
        ("pause 1.5 min,close-channel", (Rung("pause", 90), Rung("close-channel", None))),
        ("close-connection, hold-off", (Rung("close-connection", None), Rung("hold-off", None))),
    ],
)
def test_read(text: str, rungs: tuple[Rung, ...]) -> None:
    assert ladder_of(text) == Ladder(rungs)
    assert bool(ladder_of(text)) == bool(rungs)


def test_all_rungs() -> None:
    ladder = ladder_of(ALL_OF_THEM)
    assert tuple(rung.name for rung in ladder.rungs) == RUNGS
    assert [rung.seconds for rung in ladder.rungs] == [5, 30, 300, 600, 60, None, 0.5]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("rejekt", "'rejekt' is not a rung; did you mean 'reject'?"),
        ("", "'' is not a rung; there are forever, withhold, park, pause, reject, close-channel, close-connection,"),
        ("reject 5 s, park", "'park' does not come after 'reject': the order is withhold, park,"),
        ("park 1 s, park", "'park' does not come after 'park'"),
        ("park, reject", "'park' needs a time, there is a rung after it"),
        ("park 1 s, reject 5 s", "'reject' is the last rung and lasts as long as the queue is full: it has no time"),
        ("park 5, reject", "'5' is not a time: give a number and one of ms, s, m, min, h, d"),
        ("close-connection 5 s, hold-off", "'close-connection' has no time: it ends the connection"),
        ("reject 5 s, hold-off", "'hold-off' comes right after 'close-connection'"),
        ("hold-off 5 s", "'hold-off' comes right after 'close-connection'"),
        ("forever, reject", "'forever' is not a rung"),
    ],
)
def test_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        ladder_of(text)
