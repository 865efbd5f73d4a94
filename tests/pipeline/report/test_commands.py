"""Commands to copy: the shell and the real command line read them as they were meant."""

from __future__ import annotations

import json
import shlex
import subprocess
from typing import Any

import pika
import pytest
import typer.main
from hypothesis import given
from hypothesis import strategies as st

from ops import cli
from penstock.text.patterns import pattern
from pipeline.report.commands import MARKS, command, explain_limits, list_consumers, plan_moves, set_marks
from router.model.policy_keys import KEYS
from tests.broker import Broker

NAMES = ["orders", "a b", "it's", "-x", "--help", "$(rm)", "`", "a|b", "*", '"', "\\", "größe", "(x)", "^$", "{1}", "#"]
GROUP: Any = typer.main.get_group(cli.app)

names = st.text(
    st.characters(exclude_categories=["Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"]), min_size=1, max_size=30
)


def parsed(line: str) -> tuple[str, str, dict[str, Any]]:
    """Parse a command as penstock does; return its two words and the values of its parameters."""
    program, *words = shlex.split(line)
    assert program == "penstock"
    context = GROUP.make_context("penstock", list(words))
    group, found, rest = GROUP.resolve_command(context, words)
    inside = found.make_context(group, list(rest), parent=context)
    name, leaf, rest = found.resolve_command(inside, rest)
    return group, name, leaf.make_context(name, rest, parent=inside).params


def marks(queue: str, vhost: str = "/", **facts: Any) -> dict[str, Any]:
    return {
        "vhost": vhost,
        "queue": queue,
        "stop_count": 10,
        "resume_count": 7,
        "stop_bytes": None,
        "resume_bytes": None,
    } | facts


@given(names | st.sampled_from(NAMES), names | st.sampled_from(NAMES))
def test_marks_are_set_for_their_queue_alone(queue: str, vhost: str) -> None:
    line = set_marks(marks(queue, vhost, stop_bytes=99, resume_bytes=50))
    assert line is not None
    group, name, values = parsed(line)
    assert (group, name) == ("policy", "set")
    assert (values["vhost"], values["apply_to"], values["name"]) == (vhost, "queues", f"marks-{queue}")
    assert json.loads(values["definition"]) == {
        "flow-stop-count": 10, "flow-resume-count": 7, "flow-stop-size": 99, "flow-resume-size": 50
    }  # fmt: skip
    assert pattern(values["pattern"]).matches(queue)
    assert not any(pattern(values["pattern"]).matches(other) for other in (f"{queue}x", f"x{queue}", queue + queue))


def test_a_queue_without_marks_in_bytes_gets_none() -> None:
    line = set_marks(marks("orders"))
    assert line == (
        "penstock policy set --vhost=/ --apply-to=queues marks-orders '^orders$' "
        """'{"flow-stop-count": 10, "flow-resume-count": 7}'"""
    )
    assert MARKS.keys() <= KEYS.keys()


@given(names | st.sampled_from(NAMES), names | st.sampled_from(NAMES))
def test_names_are_read_as_they_are(queue: str, vhost: str) -> None:
    row = {"vhost": vhost, "queue": queue}
    consumers, explained = list_consumers(row), explain_limits(row)
    assert consumers is not None and explained is not None
    group, name, values = parsed(consumers)
    assert (group, name, values["queue"], values["vhost"]) == ("consumer", "list", queue, vhost)
    group, name, values = parsed(explained)
    assert (group, name, values["name"], values["vhost"]) == ("flow", "explain", queue, vhost)


def test_a_plan_is_made_and_not_applied() -> None:
    line = plan_moves()
    assert line is not None
    assert parsed(line)[:2] == ("rebalance", "plan")


@pytest.mark.parametrize("name", NAMES)
def test_a_shell_reads_the_words(name: str) -> None:
    line = command("flow explain", name, options={"vhost": name})
    assert line is not None
    done = subprocess.run(
        ["sh", "-c", f"penstock() {{ printf '%s\\n' \"$@\"; }}\n{line}"], capture_output=True, text=True, check=True
    )
    dashes = ["--"] * name.startswith("-")
    assert done.stdout.splitlines() == ["flow", "explain", f"--vhost={name}", *dashes, name]


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[0m", "\x07", "‮gnp", "a\x00"])
def test_a_text_that_a_terminal_does_not_show_makes_no_command(name: str) -> None:
    assert command("flow explain", name) is None
    assert set_marks(marks(name)) is None
    assert list_consumers({"vhost": name, "queue": "q"}) is None


@pytest.mark.broker
def test_a_node_obeys_the_commands(broker: Broker, queue: str) -> None:
    """The marks of the policy are those of the queue, and of no other queue."""
    names = {kind: f"{queue} it's $(1).{kind}" for kind in ("own", "own.2")}
    with pika.BlockingConnection(pika.URLParameters(broker.address.url)) as connection:
        channel = connection.channel()
        for name in names.values():
            channel.queue_declare(name, durable=True)

        def run(line: str | None) -> str:
            assert line is not None
            done = broker.penstock(*shlex.split(line)[1:])
            assert done.returncode == 0, done.stderr
            return done.stdout

        def from_policy(name: str) -> dict[str, Any]:
            """Return the settings of a queue that come from a policy."""
            settings = json.loads(broker.penstock("flow", "explain", name, "--json").stdout)["settings"]
            return {each["setting"]: each["value"] for each in settings if "policy" in str(each["source"])}

        row = {"vhost": "/", "queue": names["own"]}
        run(set_marks(marks(names["own"])))
        assert from_policy(names["own"]).items() >= {"flow-stop-count": 10, "flow-resume-count": 7}.items()
        assert from_policy(names["own.2"]) == {}
        run(explain_limits(row))
        run(list_consumers(row))
        for words in ("flow stops", "policy list", "rebalance history"):
            run(command(words))
        assert names["own"] in run(command("queue list", options={"sort": "ready"}))
        for name in names.values():
            channel.queue_delete(name)
