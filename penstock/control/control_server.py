"""A process's end of a control socket (see `penstock.control.control`)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.control.audit import Administrator
from penstock.control.control import LINE_MAX, Refusal, line, parse_request, refused
from penstock.node.logs import get_logger

log = get_logger()

CONNECTIONS_MAX = 32
IDLE_SECONDS = 60.0
"""How long a client may take over a request, or until its next one."""

Perform = Callable[[str, dict[str, Any], Callable[[dict[str, Any]], None]], None]
"""Takes a command and its arguments; calls back with the answer once the change holds in every process."""

Record = Callable[[Administrator, str, dict[str, Any], dict[str, Any]], None]
"""Receives the sender of a command, its arguments and the answer, before the answer is sent."""


def listening_at(path: Path) -> socket.socket:
    """Return a Unix socket that listens, for the user of this process only, in place of what a dead process left."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen()
    return listener


class ControlServer:
    """Serves the socket at a path, for the node's own user and root only."""

    def __init__(self, path: Path, perform: Perform, record: Record = lambda *_: None) -> None:
        self._path = path
        self._perform = perform
        self._record = record
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen on the socket."""
        self._server = await asyncio.start_unix_server(self._accept, sock=listening_at(self._path), limit=LINE_MAX)

    async def close(self) -> None:
        """Stop listening, and end all connections."""
        if self._server is not None:
            self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._path.unlink(missing_ok=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        administrator = Administrator.at(writer.get_extra_info("socket"))
        if not administrator.may_administer:
            log.warning("control socket: another user was turned away", uid=administrator.uid)
            self._record(administrator, "", {}, {"error": "neither the node's user nor root"})
            writer.close()
            return
        if len(self._connections) >= CONNECTIONS_MAX:
            writer.write(line({"error": "too many commands at once", "kind": "failed"}))
            writer.close()
            return
        task = asyncio.create_task(self._serve(reader, writer, administrator))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, administrator: Administrator
    ) -> None:
        """Answer requests until there are no more, or the client disconnects or takes too long."""
        try:
            with contextlib.suppress(OSError, TimeoutError):
                while nbytes := await asyncio.wait_for(_read_line(reader), IDLE_SECONDS):
                    writer.write(line(await self._answer(nbytes, administrator)))
                    await asyncio.wait_for(writer.drain(), IDLE_SECONDS)
        except Refusal as refusal:
            writer.write(line(refused(refusal)))
        finally:
            writer.close()

    async def _answer(self, data: bytes, administrator: Administrator) -> dict[str, Any]:
        try:
            command, arguments = parse_request(data)
        except Refusal as refusal:
            return refused(refusal)
        answered: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

        def answer(message: dict[str, Any]) -> None:
            self._record(administrator, command, arguments, message)
            if not answered.done():
                answered.set_result(message)

        try:
            self._perform(command, arguments, answer)
        except Exception:
            log.exception("command failed", command=command)
            answer({"error": f"{command} failed, the log has more", "kind": "failed"})
        return await answered


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    """One line, or nothing at the end. Refusal if it is too long."""
    try:
        return await reader.readline()
    except ValueError:
        raise Refusal("invalid", f"the request is longer than {LINE_MAX} bytes") from None
