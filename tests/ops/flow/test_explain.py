"""`penstock flow explain`: the depth of a queue, its limits with their sources, and the limits that it shares."""

from __future__ import annotations

from typing import Any

import pytest

from ops.flow import command
from ops.flow.explain import _limit_row
from tests.ops.commanded import Commanded
from tests.ops.flow.full import STOP, hold


def test_a_full_queue_is_said_to_hold_its_producers(commanded: Commanded) -> None:
    commanded.node.declare("idle")
    commanded.node.settle()
    hold(commanded)
    first, *_ = commanded.run(command.app, "explain", "q").splitlines()
    answer = commanded.json(command.app, "explain", "q")
    assert first.startswith(f"queue 'q' in vhost '/': {answer['messages']} messages, {answer['bytes']} bytes (")
    assert "holds its producers" in first
    assert answer["saturated"] and answer["messages"] > STOP
    assert answer["bytes"] > answer["body_bytes"] == answer["messages"]
    first, *_ = commanded.run(command.app, "explain", "idle").splitlines()
    assert first == "queue 'idle' in vhost '/': 0 messages, 0 bytes (0 of bodies), open"


def test_each_setting_has_its_source(commanded: Commanded) -> None:
    hold(commanded)
    found = {each["setting"]: each for each in commanded.json(command.app, "explain", "q")["settings"]}
    assert (found["flow-stop-count"]["value"], found["max-length"]["value"]) == (STOP, None)
    assert found["flow-stop-count"]["source"].startswith("declaration")
    rows = {row[0]: row[1] for row in commanded.rows(command.app, "explain", "q")}
    assert (rows["flow-stop-count"], rows["max-length"]) == (str(STOP), "-")


def test_bindings_say_whether_they_let_the_queue_stop_producers(commanded: Commanded) -> None:
    commanded.node.add_user("mallory", write="^mal")
    commanded.node.declare("mal", durable=True)
    commanded.node.bind("news", "mal", user="mallory")
    ((*_, why),) = [row for row in commanded.rows(command.app, "explain", "mal") if row[0] == "news"]
    assert why == "'mallory' may not write to exchange 'news'"
    (binding,) = commanded.json(command.app, "explain", "mal")["bindings"]
    assert (binding["made_by"], binding["stops_producers"]) == ("mallory", False)


def test_a_shared_limit_is_measured_over_all_its_queues(commanded: Commanded) -> None:
    for name in ("a", "b"):
        commanded.node.declare(name, durable=True)
    commanded.node.policy("sum", "^/$", {"sum-stop-count": 3}, "vhosts", "")
    hold(commanded, "a")
    (shared,) = commanded.json(command.app, "explain", "b")["shared"]
    depth = commanded.node.gauges.depth_count(commanded.node.queue("a").slot)
    assert (shared["queues"], shared["messages"], shared["over_count"]) == (2, depth, max(depth - 3, 0))
    assert depth > 0 and shared["over_bytes"] == 0, "no mark in bytes is exceeded where there is none"
    assert any(row[0] == shared["limit"] for row in commanded.rows(command.app, "explain", "b"))


@pytest.mark.parametrize(
    ("stop_bytes", "depth", "over"),
    [(0, "5 messages", "2 of 7"), (100, "5 messages, 90 bytes", "2 of 7, 0 of 8")],
)
def test_only_the_marks_that_are_set_are_shown(stop_bytes: int, depth: str, over: str) -> None:
    limit: dict[str, Any] = {
        "limit": "vhost '/'", "how": "sum", "queues": 2, "policy": "p", "messages": 5, "bytes": 90,
        "stop_count": 3, "resume_count": 1, "stop_bytes": stop_bytes, "resume_bytes": 50,
        "over_count": 2, "over_count_bound": 7, "over_bytes": 0, "over_bytes_bound": 8,
    }  # fmt: skip
    row = _limit_row(limit)
    assert (row["how"], row["depth"], row["over_of_bound"]) == ("sum of 2", depth, over)
    assert (row["stop_at"], row["resume_at"]) == (("3, 100", "1, 50") if stop_bytes else ("3", "1"))


def test_a_queue_that_is_not_there_is_named(commanded: Commanded) -> None:
    assert commanded.refusal(command.app, "explain", "none") == "there is no queue 'none' in vhost '/'"
