"""The stages of a channel as a table: the events that end it, and those that may not occur."""

from __future__ import annotations

import pytest

from acceptor.clients.channel_stage import CHANNEL, DETACHED, LIVE, OPEN, ChannelEvent, ChannelStage

ENDED = [stage for stage in ChannelStage if stage not in LIVE]


def test_every_stage_is_in_the_table() -> None:
    assert set(CHANNEL.table) == set(ChannelStage)


def test_every_stage_and_every_event_is_reached() -> None:
    stages, events = {OPEN}, set()
    for followers in CHANNEL.table.values():
        stages |= set(followers.values())
        events |= set(followers)
    assert stages == set(ChannelStage) and events == set(ChannelEvent)


@pytest.mark.parametrize("stage", [OPEN, ChannelStage.CLOSING])
def test_a_channel_of_a_connection_ends_with_it(stage: ChannelStage) -> None:
    assert CHANNEL.after(stage, ChannelEvent.CONNECTION_ENDS) is ChannelStage.CLOSED


@pytest.mark.parametrize("stage", [DETACHED, *ENDED])
def test_an_error_closes_a_channel_once(stage: ChannelStage) -> None:
    assert not CHANNEL.allows(stage, ChannelEvent.ERROR)


@pytest.mark.parametrize("stage", [DETACHED, *ENDED])
def test_a_channel_that_is_not_open_never_opens(stage: ChannelStage) -> None:
    assert OPEN not in CHANNEL.table[stage].values()
