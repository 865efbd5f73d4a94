"""A Redis of the test's own: Celery's suite keeps results and notes there, whatever the broker."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import wait_for


@contextmanager
def serve(directory: Path) -> Iterator[int]:
    """Run Redis on a free port of 127.0.0.1, without persistence; yield the port. Skip the test if it is missing."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(directory)]
    log = directory / "redis.log"
    with log.open("wb") as out, subprocess.Popen([program, *options], stdout=out, stderr=out) as process:
        try:
            wait_for(lambda: b"Ready to accept connections" in log.read_bytes(), 10, "Redis to be ready")
            yield port
        finally:
            process.terminate()
