"""The unit for systemd: valid, sandboxed, and with all that a node needs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pika
import pytest

from tests.broker import Broker
from tests.waiting import settled

DIRECTORY = Path(__file__).parents[2] / "ops" / "systemd"
UNIT = DIRECTORY / "penstock.service"
EXPOSURE = 20
"""In tenths: below 2.0 systemd finds little to object to."""
CALL = re.compile(r"^\d+ +(\w+)\(")
MAY_WRITE_AND_EXECUTE = re.compile(r"(mmap|mprotect|pkey_mprotect)\(.*PROT_WRITE\|PROT_EXEC")
MAY_EXECUTE_LATER = re.compile(r"(mprotect|pkey_mprotect)\(.*PROT_EXEC")


def systemd_analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run systemd's checker. The test is skipped if it is not installed."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def allowed(name: str) -> set[str]:
    """Return the system calls of a set of systemd's, with those of the sets in it."""
    said = systemd_analyze("syscall-filter", "--no-pager", name)
    assert said.returncode == 0, said.stderr
    words = [line.strip() for line in said.stdout.splitlines()[1:] if line.strip() and "#" not in line]
    return {call for word in words for call in (allowed(word) if word.startswith("@") else {word})}


def test_the_unit_is_valid(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/penstock/bin/penstock", sys.executable))
    said = systemd_analyze("verify", "--man=no", copy)
    assert (said.returncode, said.stderr) == (0, "")


def test_the_unit_is_little_exposed() -> None:
    said = systemd_analyze("security", "--offline=true", f"--threshold={EXPOSURE}", "--no-pager", UNIT)
    assert said.returncode == 0, said.stdout


def test_the_documentation_names_its_files() -> None:
    text = (DIRECTORY.parents[1] / "docs" / "operations.md").read_text()
    assert all(f"ops/systemd/{path.name}" in text for path in DIRECTORY.iterdir())


@pytest.mark.broker
@pytest.mark.slow
def test_a_node_calls_nothing_that_the_unit_forbids(tmp_path: Path) -> None:
    """All system calls of a node are traced while it starts, serves a message and stops."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    trace = tmp_path / "trace"
    by = ("strace", "-D", "-f", "-qq", "-s", "0", "-o", str(trace))  # -D: the node is the child, and gets the signals
    with Broker(tmp_path, "http.port=0", "http.metrics_port=0", acceptors=2, shards=2, by=by) as broker:
        connection = pika.BlockingConnection(pika.ConnectionParameters(*broker.address))
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.confirm_delivery()
        channel.basic_publish("", "q", b"m" * 2_000_000, pika.BasicProperties(delivery_mode=2))
        method, _, body = channel.basic_get("q", auto_ack=True)
        assert method is not None and len(body) == 2_000_000
        connection.close()
        assert broker.penstock("status").returncode == 0
    settled(lambda: trace.stat().st_size)
    lines = trace.read_text(errors="replace").splitlines()
    called = {found[1] for line in lines if (found := CALL.match(line))}
    assert {"clone", "epoll_wait", "fdatasync"} & called
    of_root = {"fchown"}  # by SQLite, if it runs as root, as tests do
    assert called - of_root <= (allowed("@system-service") - allowed("@privileged")) | {"clone3"}
    assert not [line for line in lines if MAY_WRITE_AND_EXECUTE.search(line) or MAY_EXECUTE_LATER.search(line)]
