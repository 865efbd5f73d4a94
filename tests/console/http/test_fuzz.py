"""Requests made from the API's own description, and from what it does not allow: none may be answered by a defect.

Health checks answer 503 on purpose, the stream of events does not end, and a plan is made for up to five minutes:
they are left out.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import urllib3

from tests.console.http.node import GUEST, HttpBroker
from tests.raw import Client

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(900)]

SECONDS = 800
ENDLESS_OR_503 = r"^/api/(flow/events|health/checks/.*|rebalance/plan)$"


def test_no_request_is_answered_by_a_defect(tmp_path: Path) -> None:
    with HttpBroker(tmp_path, acceptors=2, shards=2, provokes="a fuzzer") as node:
        address = node.http()
        login = urllib3.make_headers(basic_auth=":".join(GUEST))["authorization"]
        command = [
            sys.executable, "-m", "schemathesis.cli", "run", f"http://{address.host}:{address.port}/api/openapi.json",
            "--checks", "not_a_server_error", "--max-examples", "25", "--phases", "fuzzing", "--no-color",
            "--exclude-path-regex", ENDLESS_OR_503, "--header", f"Authorization: {login}", "--request-timeout", "60",
        ]  # fmt: skip
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, f"{done.stdout.partition('WARNINGS')[0]}\n{done.stderr}"
        assert "process died" not in node.log
        with Client.connect(node.address) as client:
            channel = client.channel()
            channel.call("queue.declare", queue="after the fuzz")
            assert channel.depth("after the fuzz") == 0
