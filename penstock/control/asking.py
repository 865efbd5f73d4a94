"""Requests over control sockets (see `penstock.control.control`) from an event loop."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.control.control import CALL_SECONDS, LINE_MAX, Refusal, line


async def ask(path: Path, command: str, arguments: dict[str, Any]) -> Any:
    """Send a command and return its result. Refusal if the process refuses it; OSError if it is unreachable or does not
    answer in time.
    """
    async with asyncio.timeout(CALL_SECONDS):
        reader, writer = await asyncio.open_unix_connection(str(path), limit=LINE_MAX)
        try:
            writer.write(line({"command": command, "arguments": arguments}))
            await writer.drain()
            answered = await reader.readline()
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
    if not answered.endswith(b"\n"):
        raise ConnectionAbortedError("the process ended before it had answered")
    answer = json.loads(answered)
    if "error" in answer:
        raise Refusal(answer["kind"], answer["error"])
    return answer["result"]
