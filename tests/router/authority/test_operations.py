"""Requests as they come over the bus, well formed or not."""

from __future__ import annotations

from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from structlog.processors import format_exc_info
from structlog.testing import CapturingLogger

from router.authority.operations import OPERATIONS, perform
from tests.router.making import Asked, completed
from tests.router.strategies import field_values

WHOLE: dict[str, dict[str, Any]] = {
    "exchange_declare": {"name": "x"},
    "exchange_delete": {"name": "x"},
    "exchange_bind": {"source": "amq.direct", "destination": "amq.topic"},
    "exchange_unbind": {"source": "amq.direct", "destination": "amq.topic"},
    "queue_declare": {"name": "q"},
    "queue_lookup": {"name": "q"},
    "queue_bind": {"queue": "q", "source": "amq.direct"},
    "queue_unbind": {"queue": "q", "source": "amq.direct"},
    "queue_delete": {"queue_id": 1},
    "queue_place": {"name": "q", "shard": None},
    "move_report": {
        "queue_id": 1,
        "epoch": 1,
        "shard": 0,
        "incarnation": 1,
        "state": "reattached",
        "reason": "",
        "stop": [],
        **dict.fromkeys(("count", "nbytes", "checksum"), 0),
    },
    "connection_closed": {"connection": "0.1.1"},
    "hold_off": {"user": "u", "host": "h", "seconds": 1.0, "most": 60.0, "forget": 60.0, "reason": "r"},
}


def test_every_operation() -> None:
    assert set(WHOLE) == set(OPERATIONS)
    asked = Asked()
    asked.done("queue_declare", name="q")
    for operation, arguments in WHOLE.items():
        asked.done(operation, **arguments, further="ignored")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_missing_or_mistyped(operation: str) -> None:
    asked = Asked()
    whole = completed(operation, WHOLE[operation])
    for name in whole:
        left = {key: value for key, value in whole.items() if key != name}
        outcome = perform(asked.authority, operation, left, "r")
        assert outcome.error == [541, f"malformed request: {name} is missing"]
        outcome = perform(asked.authority, operation, {**left, name: b"nbytes"}, "r")
        assert outcome.error == [541, f"malformed request: {name} is of type bytes"]


@pytest.mark.parametrize("operation", ["no_such", "", None, ["queue_declare"], "perform"])
def test_no_such_operation(operation: Any) -> None:
    outcome = perform(Asked().authority, operation, {}, "r")
    assert outcome.error == [541, f"malformed request: no operation {operation!r}"]


def test_arguments_that_are_no_map() -> None:
    assert perform(Asked().authority, "queue_delete", [1], "r").error == [
        541,
        "malformed request: the arguments are not a map",
    ]


def test_a_bug_is_541_and_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked()
    lines = CapturingLogger()
    monkeypatch.setattr("router.authority.operations.log", structlog.wrap_logger(lines, processors=[format_exc_info]))
    monkeypatch.setattr(asked.authority, "topology", None)
    outcome = perform(asked.authority, *("queue_lookup", completed("queue_lookup", {"name": "q"})), "r")
    assert outcome.error == [541, "queue_lookup failed, the log has more"]
    (line,) = lines.calls
    assert line.method_name == "error"
    assert "Traceback" in line.kwargs["exception"] and "AttributeError" in line.kwargs["exception"]


@given(
    st.sampled_from(sorted(OPERATIONS)),
    st.dictionaries(st.sampled_from(sorted({name for fields in WHOLE.values() for name in fields})), field_values),
)
def test_any_values(operation: str, values: dict[str, Any]) -> None:
    """No values raise an error, and every refusal has a code of AMQP."""
    asked = Asked(shards=1, queues=3)
    outcome = perform(asked.authority, operation, {**completed(operation, WHOLE[operation]), **values}, "r")
    if outcome.error is not None:
        code, text = outcome.error
        assert code in (320, 403, 404, 405, 406, 503, 530, 541) and isinstance(text, str)
