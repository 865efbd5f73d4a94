"""The stages of a connection as a table: the way to open, the events that end it, and those that may not occur."""

from __future__ import annotations

import pytest

from acceptor.clients.connection_stage import (
    CONNECTION,
    ENDING,
    HANDSHAKE,
    OPEN,
    OVER,
    ConnectionEvent,
    ConnectionStage,
)


def test_every_stage_is_in_the_table_and_of_one_kind() -> None:
    assert set(CONNECTION.table) == set(ConnectionStage)
    assert sorted(stage.name for stage in (*HANDSHAKE, OPEN, *ENDING, *OVER)) == sorted(
        stage.name for stage in ConnectionStage
    )


def test_every_stage_and_every_event_is_reached() -> None:
    stages, events = {ConnectionStage.HEADER}, set()
    for followers in CONNECTION.table.values():
        stages |= set(followers.values())
        events |= set(followers)
    assert stages == set(ConnectionStage) and events == set(ConnectionEvent)


def test_the_handshake_leads_to_open_in_one_order() -> None:
    stage = ConnectionStage.HEADER
    for event in (
        ConnectionEvent.HEADER,
        ConnectionEvent.START_OK,
        ConnectionEvent.ACCEPTED,
        ConnectionEvent.TUNE_OK,
        ConnectionEvent.OPEN,
    ):
        assert [each for each in HANDSHAKE if CONNECTION.allows(each, event)] == [stage]
        stage = CONNECTION.after(stage, event)
    assert stage is OPEN


@pytest.mark.parametrize("stage", ConnectionStage)
def test_a_lost_socket_ends_a_connection_in_any_stage(stage: ConnectionStage) -> None:
    assert CONNECTION.after(stage, ConnectionEvent.LOST) is ConnectionStage.CLOSED


@pytest.mark.parametrize("stage", ConnectionStage)
def test_a_connection_that_is_hung_up_on_says_nothing_more(stage: ConnectionStage) -> None:
    assert CONNECTION.after(stage, ConnectionEvent.HANG_UP) in OVER


@pytest.mark.parametrize("stage", [*ENDING, *OVER])
def test_a_connection_that_ends_never_opens_again(stage: ConnectionStage) -> None:
    assert set(CONNECTION.table[stage].values()) <= {*ENDING, *OVER}


@pytest.mark.parametrize("stage", [ConnectionStage.CLOSING, ConnectionStage.LEAVING, *OVER])
def test_an_error_closes_a_connection_once(stage: ConnectionStage) -> None:
    assert not CONNECTION.allows(stage, ConnectionEvent.ERROR)
