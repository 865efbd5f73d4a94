"""The commands of `penstock rebalance`: options and settings, texts and exit statuses. Under load: tests/broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ops.errors import CommandError
from ops.operator_name import operator_name
from ops.rebalance import command
from ops.rebalance.applying import Limits
from ops.rebalance.automatic import Pause, PauseFile, Said, said_file
from ops.rebalance.command import given_limits
from ops.rebalance.configured import limits_of, rules_of
from ops.rebalance.goals import Rules
from penstock.memory.gauges import READY
from penstock.settings.sections import RebalanceSettings
from tests.ops.served import ServedNode, served

HOLD = {"plan": "p", "holder": "ann", "seconds": 60, "limits": asdict(Limits()), "progress": {}}
PROGRESS = {"done": 0, "moves": 2, "messages": 0, "waits_for": ""}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServedNode]:
    with served(tmp_path / "data") as node:
        yield node


def rebalance(data: Path, *words: str, status: int = 0) -> str:
    """Return the output of a command, or its error."""
    done = CliRunner().invoke(command.app, [*words, "--data", str(data)])
    refused = isinstance(done.exception, CommandError)
    assert (2 if refused else done.exit_code) == status, (done.exception, done.output)
    return str(done.exception) if refused else done.stdout


def emptying(node: ServedNode) -> dict[str, Any]:
    """Plan to move two queues off shard 1."""
    for name in ("a", "b"):
        node.declare(name, 1)
    words = ("plan", "--window", "10 ms", "--leave-shard", "1", "--min-coverage", "0", "--json")
    made: dict[str, Any] = json.loads(rebalance(node.data, *words))
    return made


def test_a_plan_moves_nothing_until_it_is_applied(node: ServedNode, tmp_path: Path) -> None:
    made = emptying(node)
    assert [(move["queue"], move["from"], move["to"]) for move in made["moves"]] == [("a", 1, 0), ("b", 1, 0)]
    assert node.homes() == {"a": 1, "b": 1}
    assert rebalance(node.data, "history") == "no plan was applied\n"
    answer = rebalance(node.data, "apply", made["id"])
    assert answer.splitlines()[-1] == f"plan {made['id']}: applied"
    assert node.homes() == {"a": 0, "b": 0}
    (kept,) = json.loads(rebalance(node.data, "history", "--json"))
    assert (kept["plan"], kept["state"], kept["moved"]) == (made["id"], "applied", 2)
    moves = json.loads(rebalance(node.data, "history", made["id"], "--json"))
    assert [(move["queue"], move["result"]) for move in moves] == [("a", "moved"), ("b", "moved")]
    assert f"; the last was {made['id']}: applied\n" in rebalance(node.data, "status")
    undone = json.loads(rebalance(node.data, "undo", made["id"], "--json"))
    assert [(move["queue"], move["to"]) for move in undone["moves"]] == [("b", 1), ("a", 1)]
    assert node.homes() == {"a": 0, "b": 0}


def test_a_plan_that_ends_early_has_a_status_and_a_reason(node: ServedNode) -> None:
    made = emptying(node)
    node.command("shard_drain", shard=0)
    answer = rebalance(node.data, "apply", made["id"], status=1)
    reason = "queue 'a': refused, shard 0 is draining: it takes no queues"
    assert answer.splitlines()[-1] == f"plan {made['id']}: stopped, {reason}"
    again = json.loads(rebalance(node.data, "apply", made["id"], "--json", status=1))
    assert (again["state"], again["reason"], again["results"]) == ("stopped", reason, {"refused": 2})


def test_a_plan_is_also_written_to_a_file(node: ServedNode, tmp_path: Path) -> None:
    words = "plan", "--window", "10 ms", "--min-coverage", "0"
    answer = rebalance(node.data, *words, "--output", str(tmp_path / "plan.json"))
    assert "no moves" in answer.splitlines()
    assert json.loads((tmp_path / "plan.json").read_text())["id"] in answer
    refused = rebalance(node.data, *words, "--output", str(tmp_path / "none/plan.json"), status=2)
    assert refused == f"cannot write {tmp_path}/none/plan.json: No such file or directory"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("plan --exclude-shard 7", "there is no shard 7"),
        ("plan --leave-shard 9 --leave-shard 8", "there is no shard 8"),
        ("plan --window soon", "--window: 'soon' is not a time: give a number and one of "),
        ("verify --window 5", "--window: '5' is not a time: give a number and one of "),
        ("apply none", "there is no plan 'none': neither a known id nor a file"),
        ("limit", "no limit is given"),
        ("limit --bytes-per-second many", "--bytes-per-second: "),
        ("limit --moves 0", "no plan is being applied"),
        ("abort", "no plan is being applied"),
        ("history none", "plan 'none' was not applied"),
    ],
)
def test_a_mistake_is_one_line(node: ServedNode, words: str, text: str) -> None:
    assert rebalance(node.data, *words.split(), status=2).startswith(text)


def test_operators_see_change_and_end_the_plan_that_is_applied(node: ServedNode) -> None:
    assert rebalance(node.data, "status") == "no plan is being applied\nautomatic rebalancing is off\n"
    node.command("rebalance_hold", **{**HOLD, "progress": PROGRESS})
    assert rebalance(node.data, "status").startswith("plan p is being applied by ann for ")
    answer = rebalance(node.data, "limit", "--bytes-per-second", "2 MiB", "--moves", "0", "--json")
    limits = json.loads(answer)["limits"]
    assert (limits["bytes_per_second"], limits["moves"], limits["loop_lag_ms"]) == (2 << 20, 0, 250.0)
    assert rebalance(node.data, "abort", "q", status=2) == "plan q is not being applied, p is"
    assert json.loads(rebalance(node.data, "abort", "p", "--json"))["abort"] is True


def test_verify_names_each_queue_that_is_not_in_its_place(node: ServedNode) -> None:
    made = emptying(node)
    assert rebalance(node.data, "verify") == "2 queues, 0 misplaced\n"
    not_done = [f"queue '{name}' in vhost '/' is on shard 1, not 0" for name in ("a", "b")]
    answer = rebalance(node.data, "verify", made["id"], status=1)
    assert answer.splitlines() == [*not_done, "2 queues, 2 misplaced"]
    rebalance(node.data, "apply", made["id"])
    assert rebalance(node.data, "verify", made["id"], "--window", "10 ms").startswith(
        "2 queues, 0 misplaced; most load"
    )
    node.lost.add("b")
    facts = json.loads(rebalance(node.data, "verify", made["id"], "--json", status=1))
    assert facts["wrong"] == ["queue 'b' in vhost '/' belongs on shard 0, is on none"]
    assert facts["queues"] == 2


def test_only_history_needs_no_node(tmp_path: Path) -> None:
    assert rebalance(tmp_path, "history", "--json") == "[]\n"
    for words in (["plan"], ["status"], ["verify"], ["undo", "p"], ["abort"]):
        assert rebalance(tmp_path, *words, status=2) == f"no node runs on {tmp_path}"


def test_rules_are_those_of_the_settings_with_options_in_their_place() -> None:
    settings = RebalanceSettings(low_rate=5, coverage_percent=60, moves_max=9, pins=["*/a"])
    assert rules_of(settings) == Rules(
        low_rate=5, min_coverage=0.6, moves_max=9, pins=("*/a",), cpu_percent=settings.cpu_percent,
        memory_percent=settings.memory_percent, store_percent=settings.store_percent,
    )  # fmt: skip
    given = rules_of(settings, 0.0, 1, 0, ["*/b"], [1, 2], [3])
    assert (given.low_rate, given.moves_max, given.min_coverage) == (0.0, 1, 0.0)
    assert given.pins == ("*/a", "*/b"), "pins of the settings stay"
    assert (given.excluded, given.leaving) == ({1, 2}, {3})


def test_limits_are_those_of_the_settings_and_one_move_at_a_time() -> None:
    settings = RebalanceSettings(messages_per_second=10, bytes_per_second=20, loop_lag_ms=30, stopped_percent=40,
                                 fill_percent=50)  # fmt: skip
    assert limits_of(settings) == Limits(10, 20, 1, 30, 40, 50)


def test_every_limit_can_be_given_and_zero_is_not_the_same_as_none() -> None:
    assert given_limits(None, None, None, None, None, None) == {}
    assert given_limits(0, "0", 0, 0.0, 0.0, 0.0) == dict.fromkeys(asdict(Limits()), 0)
    assert given_limits(None, "1 MiB", None, None, None, None) == {"bytes_per_second": 1 << 20}


def test_a_pause_is_set_for_a_time_or_until_it_is_resumed(node: ServedNode) -> None:
    assert rebalance(node.data, "resume") == "automatic rebalancing was not paused\n"
    assert rebalance(node.data, "pause") == "automatic rebalancing is paused until it is resumed\n"
    assert PauseFile(node.data).read() == Pause(operator_name(), None)
    assert rebalance(node.data, "pause", "2h").startswith("automatic rebalancing is paused until 20")
    pause = PauseFile(node.data).read()
    assert pause is not None and pause.until is not None and pause.lasts(pause.until - 1)
    assert not pause.lasts(pause.until)
    assert rebalance(node.data, "pause", "soon", status=2).startswith("TIME: 'soon' is not a time")
    assert rebalance(node.data, "resume") == "automatic rebalancing is no longer paused\n"
    assert PauseFile(node.data).read() is None


def test_status_has_what_automatic_rebalancing_does(tmp_path: Path) -> None:
    with served(tmp_path / "data", rebalance={"automatic": {"mode": "on"}}) as node:
        facts = json.loads(rebalance(node.data, "status", "--json"))
        assert facts == {
            "applying": None,
            "automatic": {
                "mode": "on", "stage": "unstarted", "why": "its process is unstarted", "since": None, "until": None,
                "last": None,
            },
        }  # fmt: skip
        node.set_process("balancer", 0, READY)
        said_file(node.data).keep([Said("watching", "no window was uneven", 1.0, None)._asdict()])
        assert "automatic rebalancing (on) is watching: no window was uneven\n" in rebalance(node.data, "status")
