"""`penstock rebalance plan` and `penstock rebalance apply` as children of this process, which imports nothing of the
command line. One plan is made, and one applied, at a time.

The children end at `close`. If this process is killed, `apply` ends when it next reports progress, to a closed pipe;
`plan` ends with its window, or with the node.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.control.control import Refusal
from penstock.node.logs import get_logger
from penstock.programs import environment

log = get_logger()

Facts = dict[str, Any]

COMMAND = (sys.executable, "-m", "ops")
SETTINGS = "PENSTOCK_"
"""Prefix of variables that set the node; the command takes everything from the node that runs."""
PLAN_SECONDS = 60.0
"""The longest that making a plan may take beyond its window."""
CLOSE_SECONDS = 0.5
"""Time for children to end at SIGTERM before they are killed."""
OUTPUT_MOST = 16 * 1024 * 1024
ERRORS_MOST = 16 * 1024
"""Bytes of a child's standard output and error that are kept: the last ones."""
CALLER_ERROR = 2
"""Exit status of a command that was refused, with the reason in one line on standard error (`ops.cli`)."""


class Rebalancing:
    """The plans that are made and applied for users of the HTTP interface.

    `planning` is {user, since, window} while a plan is made, `applying` {plan, user, since} while one is applied, and
    `last` {plan, user, state, reason, …} of the last one applied, as `penstock rebalance history` has it; each is None
    otherwise. Times are seconds since 1970.
    """

    def __init__(self, data: Path, command: Sequence[str] = COMMAND) -> None:
        self._command = (*command, "--data", str(data), "rebalance")
        self._children: set[Process] = set()
        self._application: asyncio.Task[None] | None = None
        self._is_closed = False
        self.planning: Facts | None = None
        self.applying: Facts | None = None
        self.last: Facts | None = None

    async def plan(self, user: str, window: int, moves_max: int | None, leave: Sequence[int]) -> Facts:
        """Make a plan from the load of so many seconds, and return it (`ops.rebalance.plan`). Refusal if one is being
        made, or if none can be made.
        """
        if self.planning is not None:
            raise Refusal("exists", "another plan is being made")
        self.planning = {"user": user, "since": time.time(), "window": window}
        most = () if moves_max is None else ("--moves-max", str(moves_max))
        left = (part for shard in leave for part in ("--leave-shard", str(shard)))
        try:
            return await self._run(
                "plan", "--json", "--window", f"{window} s", *most, *left, seconds=window + PLAN_SECONDS
            )
        finally:
            self.planning = None

    async def apply(self, user: str, plan: str) -> Facts:
        """Begin to apply a plan, by its id; return `applying`. Refusal if this process applies one already."""
        if self.applying is not None:
            raise Refusal("exists", f"plan {self.applying['plan']} is being applied")
        self.applying = {"plan": plan, "user": user, "since": time.time()}
        self._application = asyncio.create_task(self._apply(self.applying))
        return self.applying

    async def close(self) -> None:
        """End the children: a move that is being made is finished or rolled back by the router."""
        self._is_closed = True
        for stop in (Process.terminate, Process.kill):
            for child in self._children:
                with suppress(ProcessLookupError):
                    stop(child)
            if self._children:
                await asyncio.wait([asyncio.ensure_future(child.wait()) for child in self._children],
                                   timeout=CLOSE_SECONDS)  # fmt: skip
        if self._application is not None:
            await self._application

    async def _apply(self, begun: Facts) -> None:
        try:
            outcome = await self._run("apply", begun["plan"], "--json")
        except Refusal as refusal:
            outcome = {"plan": begun["plan"], "state": "refused", "reason": str(refusal)}
        self.last = {**outcome, "user": begun["user"]}
        self.applying = None
        log.info("rebalancing: plan ended", **{name: self.last[name] for name in ("plan", "user", "state", "reason")})

    async def _run(self, *arguments: str, seconds: float | None = None) -> Facts:
        """Run a command of `penstock rebalance`, and return the JSON object that it prints. Refusal, with its error
        line, if it prints none; or if it takes longer than `seconds`.
        """
        child = await self._start(arguments)
        try:
            async with asyncio.timeout(seconds):
                output, errors = await asyncio.gather(
                    _last_bytes(child.stdout, OUTPUT_MOST), _last_bytes(child.stderr, ERRORS_MOST)
                )
                status = await child.wait()
        except TimeoutError:
            raise Refusal("busy", f"rebalance {arguments[0]} took longer than {seconds:g} s") from None
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
            self._children.discard(child)
        with suppress(ValueError):
            found = json.loads(output)
            if isinstance(found, dict):
                return found
        lines = errors.decode(errors="replace").split("\n")
        reason = next((line for line in reversed(lines) if line.strip()), f"it ended with status {status}")
        raise Refusal("invalid" if status == CALLER_ERROR else "failed", reason.removeprefix("penstock: "))

    async def _start(self, arguments: Sequence[str]) -> Process:
        if self._is_closed:
            raise Refusal("busy", "the console is stopping")
        inherited = {name: value for name, value in os.environ.items() if not name.upper().startswith(SETTINGS)}
        try:
            child = await asyncio.create_subprocess_exec(
                *self._command, *arguments, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=environment(inherited)
            )
        except OSError as error:
            raise Refusal("failed", f"the command cannot be run: {error.strerror}") from None
        self._children.add(child)
        if self._is_closed:
            child.kill()
        return child


async def _last_bytes(stream: asyncio.StreamReader | None, most: int) -> bytes:
    """Read a stream to its end; return its last bytes."""
    assert stream is not None
    found = b""
    while part := await stream.read(1 << 16):
        found = (found + part)[-most:]
    return found
