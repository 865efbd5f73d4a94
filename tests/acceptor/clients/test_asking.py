"""Requests of a handler: the question that it yields, and the result or error of the answer."""

from __future__ import annotations

import pytest

from acceptor.clients.asking import INTERNAL_ERROR, Answer, ToRouter, ToShard, ask_router, ask_shard, has_failed
from penstock.amqp.errors import AMQPError, HardError, SoftError
from penstock.bus.to_shard import Purge


class Connection:
    """A connection that records the errors that would end it."""

    def __init__(self) -> None:
        self.errors: list[AMQPError] = []

    def fail(self, error: AMQPError) -> None:
        self.errors.append(error)


def test_the_router_is_asked_by_name_and_its_result_returned() -> None:
    asking = ask_router("queue_declare", request="an argument", name="q")
    assert next(asking) == ToRouter("queue_declare", {"request": "an argument", "name": "q"})
    with pytest.raises(StopIteration) as ended:
        asking.send(Answer({"queue_id": 7}, None))
    assert ended.value.value == {"queue_id": 7}


def test_a_shard_is_asked_with_room_for_the_number_of_the_request() -> None:
    asking = ask_shard(3, Purge(7))
    assert next(asking) == ToShard(3, Purge(7))
    with pytest.raises(StopIteration) as ended:
        asking.send(Answer(12, None))
    assert ended.value.value == 12


@pytest.mark.parametrize(("code", "kind"), [(404, SoftError), (406, SoftError), (541, HardError)])
@pytest.mark.parametrize("asks", ["router", "shard"])
def test_a_refusal_is_raised_in_the_handler(asks: str, code: int, kind: type[AMQPError]) -> None:
    asking = ask_router("queue_declare") if asks == "router" else ask_shard(0, Purge(7))
    next(asking)
    with pytest.raises(kind) as raised:
        asking.send(Answer(None, [code, "no room"]))
    assert (raised.value.code, raised.value.text) == (code, "no room")


@pytest.mark.parametrize(("code", "text"), [(404, "no queue 'q' in vhost '/'"), (406, "in use")])
def test_only_a_missing_queue_gets_the_name_that_the_shard_does_not_know(code: int, text: str) -> None:
    asking = ask_shard(0, Purge(7), about="queue 'q' in vhost '/'")
    next(asking)
    with pytest.raises(SoftError) as raised:
        asking.send(Answer(None, [code, "in use"]))
    assert (raised.value.code, raised.value.text) == (code, text)


@pytest.mark.parametrize(("error", "failed"), [(None, False), ([404, "gone"], False), ([INTERNAL_ERROR, "bug"], True)])
def test_a_shard_that_fails_at_a_request_ends_the_connection(error: list[object] | None, failed: bool) -> None:
    connection = Connection()
    assert has_failed(connection, error) is failed
    assert [(each.code, each.text, each.hard) for each in connection.errors] == [(541, "bug", True)] * failed
