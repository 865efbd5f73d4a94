"""Requests over control sockets (see `penstock.control.control`) from an event loop."""

from __future__ import annotations

import asyncio
import errno
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.control.control import CALL_SECONDS, Refusal, line

ANSWER_MOST = 256 * 1024 * 1024
"""Bytes of an answer: a list may have an entry for each of many connections."""


async def ask(path: Path, command: str, arguments: dict[str, Any]) -> Any:
    """Send a command and return its result. Refusal if the process refuses it; OSError if it is unreachable or does not
    answer in time.
    """
    async with asyncio.timeout(CALL_SECONDS):
        reader, writer = await asyncio.open_unix_connection(str(path), limit=ANSWER_MOST)
        try:
            writer.write(line({"command": command, "arguments": arguments}))
            await writer.drain()
            answered = await reader.readline()
        except ValueError:
            raise OSError(errno.EMSGSIZE, f"the answer is larger than {ANSWER_MOST} bytes") from None
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
