"""A process's end of a control socket (see `penstock.control.control`)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
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
        self._path.unlink(missing_ok=True)  # left by a process that died
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self._path))
        self._path.chmod(0o600)
        self._server = await asyncio.start_unix_server(self._accept, sock=listener, limit=LINE_MAX)

    async def close(self) -> None:
        """Stop listening, and end all connections."""
        if self._server is not None:
            self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._path.unlink(missing_ok=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        uid, pid = _peer(writer)
        if uid not in (os.geteuid(), 0):
            log.warning("control socket: another user was turned away", uid=uid)
            self._record(Administrator.of(uid, pid), "", {}, {"error": "neither the node's user nor root"})
            writer.close()
            return
        if len(self._connections) >= CONNECTIONS_MAX:
            writer.write(line({"error": "too many commands at once", "kind": "failed"}))
            writer.close()
            return
        task = asyncio.create_task(self._serve(reader, writer, Administrator.of(uid, pid)))
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


def _peer(writer: asyncio.StreamWriter) -> tuple[int, int]:
    """User and process at the other end (unix(7), SO_PEERCRED)."""
    peer = writer.get_extra_info("socket")
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", credentials)
    return int(uid), int(pid)
