"""The commands of docs/http.md, run on a node with its own ports."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess

import pytest

from tests.console.http.node import HttpBroker
from tests.twins import ROOT

PAGE = (ROOT / "docs" / "http.md").read_text()
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("curl ") and "--cacert" not in line  # with certificates: tests/console/test_certificate.py
]


@pytest.mark.broker
def test_each_command_is_answered(node: HttpBroker) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    assert len(COMMANDS) >= 5
    for command in COMMANDS:
        for name, port in (("api", 15672), ("metrics", 15692)):
            command = command.replace(f"127.0.0.1:{port}", "{0.host}:{0.port}".format(node.http(name)))
        command = command.replace("/run/penstock/http", str(node.unix_socket))
        done = subprocess.run(
            [*shlex.split(command), "--fail", "--silent", "--show-error", "--max-time", "60"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0 and done.stdout, (command, done.stderr)
