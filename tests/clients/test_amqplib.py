"""Tutorial-style programs with Node's amqplib; the programs are in `node/` and check themselves."""

from __future__ import annotations

import subprocess
from uuid import uuid4

import pytest

from tests.clients import amqplib
from tests.waiting import PATIENCE

pytestmark = pytest.mark.broker


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    return amqplib.environment()


@pytest.mark.parametrize(
    "program", ["hello_world", "work_queue", "publish_subscribe", "routing", "topics", "rpc", "confirms"]
)
def test_program(url: str, environment: dict[str, str], program: str) -> None:
    command = ["node", str(amqplib.PROGRAMS / f"{program}.js"), url, f"node-{uuid4().hex[:8]}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=2 * PATIENCE)
    assert done.returncode == 0, done.stderr
