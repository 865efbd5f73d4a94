"""A NestJS microservice and its client over direct reply-to: request, reply, and immediate close of both."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from uuid import uuid4

import pytest

from tests.clients import amqplib
from tests.waiting import PATIENCE

pytestmark = pytest.mark.broker

PROGRAMS = Path(__file__).parent / "nest"
OLDEST_NODE = (20, 19)
"""The first version whose `require` accepts the ES modules of NestJS."""


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    environment = amqplib.environment(PROGRAMS)
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.match(r"v(\d+)\.(\d+)", version)
    assert found, version
    if (int(found[1]), int(found[2])) < OLDEST_NODE:
        pytest.skip(f"NestJS needs a newer Node.js than {version.strip()}")
    return environment


def test_both_close_as_soon_as_the_reply_is_there(url: str, environment: dict[str, str]) -> None:
    """Twenty rounds. The service must have its reply's confirm when it closes, although it does not wait for that."""
    command = ["node", str(PROGRAMS / "client.js"), url, f"nest-{uuid4().hex[:8]}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=2 * PATIENCE)
    assert done.returncode == 0, done.stderr
