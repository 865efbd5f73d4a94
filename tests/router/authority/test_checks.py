"""Checks of names and of access."""

from __future__ import annotations

import pytest

from penstock.amqp.errors import AMQPError
from router.authority.checks import check_access, check_equivalent, check_new_name, check_not_default, stripped
from router.model.records import Queue

MINE = Queue("/", "q", 1, 3, 0, False, False, "0.1.1", {}, [], [])
ANYBODYS = Queue("/", "q", 1, 3, 0, False, False, None, {}, [], [])


def test_stripped() -> None:
    assert stripped("\r\na\nb\r") == "ab"


@pytest.mark.parametrize(("name", "code"), [("amq.", 403), ("amq.x", 403), ("\udc80", 406), ("x" * 256, 406)])
def test_names_that_cannot_be_given(name: str, code: int) -> None:
    with pytest.raises(AMQPError) as refused:
        check_new_name("queue", name)
    assert refused.value.code == code


@pytest.mark.parametrize("name", ["amq", "amqp.x", "x" * 255, "水門", " "])
def test_names_that_can(name: str) -> None:
    check_new_name("queue", name)


def test_default_exchange() -> None:
    check_not_default("x")
    with pytest.raises(AMQPError):
        check_not_default("")


@pytest.mark.parametrize("connection", ["0.1.2", None])
def test_access(connection: str | None) -> None:
    check_access(ANYBODYS, connection)
    check_access(MINE, "0.1.1")
    with pytest.raises(AMQPError) as refused:
        check_access(MINE, connection)
    assert refused.value.code == 405


def test_exclusive_is_part_of_what_a_queue_is() -> None:
    """The queue's own connection, too, has to redeclare it as exclusive; only then do the properties count."""
    check_equivalent(MINE, False, False, "0.1.1", {})
    for queue, owner in ((MINE, None), (MINE, "0.1.2"), (ANYBODYS, "0.1.1")):
        with pytest.raises(AMQPError) as refused:
            check_equivalent(queue, True, True, owner, {})
        assert refused.value.code == 405
