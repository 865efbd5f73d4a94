"""Plans made and applied by children of the console; here programs of the test take the command's place."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from console import rebalancing
from console.rebalancing import Rebalancing
from penstock.control.control import Refusal
from tests.waiting import wait_for

ECHO = "import json, sys; print(json.dumps({'arguments': sys.argv[1:]}))"
REFUSES = "import sys; print('a hint', 'penstock: {}', sep=chr(10), file=sys.stderr); sys.exit({})"
WAITS = """
import signal, sys
signal.signal(signal.SIGTERM, {handler})
open({path!r}, "w").write("{{}}")
while True:
    signal.pause()
"""
ENDS_CLEANLY = 'lambda *_: (print(\'{"state": "aborted", "plan": "p", "reason": ""}\'), sys.exit(1))'


def program(directory: Path, text: str) -> Rebalancing:
    return Rebalancing(directory, (sys.executable, "-c", text))


@pytest.fixture(autouse=True)
def no_child_is_left() -> Iterator[None]:
    """Other tests of this process may have children of theirs."""
    this = psutil.Process(os.getpid())
    before = set(this.children())
    yield
    assert set(this.children()) <= before


async def written(path: Path) -> None:
    await asyncio.to_thread(wait_for, path.exists)


def test_the_command_gets_what_was_chosen(tmp_path: Path) -> None:
    async def course() -> None:
        making = program(tmp_path, ECHO)
        found = await making.plan("ann", 5, 3, [1, 2])
        assert found["arguments"] == [
            *("--data", str(tmp_path), "rebalance", "plan", "--json", "--window", "5 s"),
            *("--moves-max", "3", "--leave-shard", "1", "--leave-shard", "2"),
        ]
        assert (await making.plan("ann", 5, None, []))["arguments"][3:] == ["plan", "--json", "--window", "5 s"]
        assert making.planning is None

    asyncio.run(course())


def test_the_settings_of_the_node_are_not_those_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_SHARDS", "nonsense")
    text = "import os; print('{\"ok\": %d}' % ('PENSTOCK_SHARDS' not in os.environ))"
    assert asyncio.run(program(tmp_path, text).plan("ann", 1, None, [])) == {"ok": 1}


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        (REFUSES.format("no plan", 2), "invalid", "no plan"),
        (REFUSES.format("broken", 1), "failed", "broken"),
        ("print('[]')", "failed", "it ended with status 0"),
        ("import os; os.kill(os.getpid(), 9)", "failed", "it ended with status -9"),
    ],
)
def test_a_plan_that_cannot_be_made_is_refused_with_the_reason(
    tmp_path: Path, text: str, kind: str, reason: str
) -> None:
    with pytest.raises(Refusal, match=f"^{reason}$") as refused:
        asyncio.run(program(tmp_path, text).plan("ann", 1, None, []))
    assert refused.value.kind == kind


def test_a_command_that_cannot_be_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="cannot be run: No such file"):
        asyncio.run(Rebalancing(tmp_path, (str(tmp_path / "nothing"),)).plan("ann", 1, None, []))


def test_output_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalancing, "OUTPUT_MOST", 100)
    with pytest.raises(Refusal):
        asyncio.run(program(tmp_path, "print('{\"a\": \"' + 'x' * 1000 + '\"}')").plan("ann", 1, None, []))


def test_a_plan_that_takes_too_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalancing, "PLAN_SECONDS", -1.0)
    waits = WAITS.format(handler="signal.SIG_IGN", path=str(tmp_path / "begun"))
    with pytest.raises(Refusal, match="took longer than 0 s") as refused:
        asyncio.run(program(tmp_path, waits).plan("ann", 1, None, []))
    assert refused.value.kind == "busy"


def test_one_plan_is_made_at_a_time_and_a_cancelled_one_is_ended(tmp_path: Path) -> None:
    async def course() -> None:
        begun = tmp_path / "begun"
        making = program(tmp_path, WAITS.format(handler="signal.SIG_IGN", path=str(begun)))
        first = asyncio.create_task(making.plan("ann", 1, None, []))
        await written(begun)
        assert making.planning is not None and making.planning["user"] == "ann"
        with pytest.raises(Refusal, match="another plan is being made") as refused:
            await making.plan("bob", 1, None, [])
        assert refused.value.kind == "exists"
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert making.planning is None

    asyncio.run(course())


@pytest.mark.parametrize(
    ("handler", "state"), [(ENDS_CLEANLY, "aborted"), ("signal.SIG_IGN", "refused")], ids=["ends", "is killed"]
)
def test_a_plan_being_applied_ends_with_the_console(tmp_path: Path, handler: str, state: str) -> None:
    async def course() -> Rebalancing:
        begun = tmp_path / "begun"
        applying = program(tmp_path, WAITS.format(handler=handler, path=str(begun)))
        assert (await applying.apply("ann", "p"))["plan"] == "p"
        with pytest.raises(Refusal, match="plan p is being applied"):
            await applying.apply("bob", "q")
        await written(begun)
        await applying.close()
        with pytest.raises(Refusal, match="stopping"):
            await applying.plan("ann", 1, None, [])
        return applying

    ended = asyncio.run(course())
    assert ended.applying is None and ended.last is not None
    assert (ended.last["plan"], ended.last["user"], ended.last["state"]) == ("p", "ann", state)
