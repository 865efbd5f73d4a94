"""The template, asked over its socket: it forks at each request, and ends with its supervisor's end of the socket."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import psutil
import pytest

from ops.template import MODULES, REQUEST_MAX
from penstock import __version__
from penstock.bus import pack, unpack
from penstock.node.node import Role
from penstock.node.wire_format import WIRE_FORMAT
from penstock.process import process
from tests.twins import ROOT
from tests.waiting import PATIENCE, wait_for

PROGRAM = """
import os, sys
from pathlib import Path
from ops import template
from penstock.process import process

def main(runtime, index, incarnation, *inherited):
    if index == 9:
        raise ValueError("a bug")
    os.write(1, b"%d %d %s\\n" % (index, incarnation, os.read(inherited[0], 9) if inherited else b"-"))

process.adopt_orphans()
template.serve(Path(sys.argv[1]), int(sys.argv[2]), dict.fromkeys(("acceptor", "shard"), template.Program(main)))()
"""

FORK = """
import os, signal, sys
from ops import template

first = template.fork()
print(*sys.modules)
os.kill(first.pid, signal.SIGKILL)
"""


class Template:
    """A template whose processes print their arguments, and the contents of a descriptor that they inherit."""

    def __init__(self, runtime: Path) -> None:
        self.runtime = runtime
        process.record_parent(runtime)
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(PATIENCE)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(runtime), str(theirs.fileno())],
                cwd=ROOT,
                pass_fds=(theirs.fileno(),),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )

    def answer(self) -> Any:
        return unpack(self.socket.recv(REQUEST_MAX))

    def request(self, *what: Any, inherited: tuple[int, ...] = ()) -> Any:
        socket.send_fds(self.socket, [pack([*what])], inherited)
        return self.answer()

    def report(self) -> str:
        """Return a line of a forked process."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().rstrip()


@pytest.fixture
def template(tmp_path: Path) -> Iterator[Template]:
    found = Template(tmp_path)
    assert found.answer() == [found.process.pid, WIRE_FORMAT, __version__], "it greets"
    yield found
    found.socket.close()
    assert found.process.wait(PATIENCE) == 0, "it ends without its supervisor's end of the socket"
    assert found.process.stdout is not None
    found.process.stdout.close()


def test_each_request_is_answered_with_the_pid_of_a_process_that_gets_its_arguments(template: Template) -> None:
    pids = [template.request("shard", 3, 1), template.request("shard", 4, 7)]
    assert sorted(template.report() for _ in pids) == ["3 1 -", "4 7 -"]
    assert len({*pids, template.process.pid}) == 3


def test_a_descriptor_of_a_request_is_the_forked_process_s_alone(template: Template) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"here")
    assert template.request("acceptor", 0, 1, inherited=(reader,)) > 0
    os.close(reader)
    assert template.report() == "0 1 here"
    template.request("shard", 0, 1)  # once this is answered, the request before is done
    held = [os.readlink(link) for link in Path(f"/proc/{template.process.pid}/fd").iterdir() if link.is_symlink()]
    assert os.readlink(f"/proc/self/fd/{writer}") not in held
    os.close(writer)


def test_the_reason_of_an_unexpected_error_is_left_and_the_template_goes_on(template: Template) -> None:
    failed = psutil.Process(template.request("shard", 9, 1))
    wait_for(lambda: failed.status() == psutil.STATUS_ZOMBIE, what="the end of the process")
    assert process.take_reason(template.runtime, "shard", 9) == "ValueError: a bug"
    template.request("shard", 0, 1)
    assert template.report() == "0 1 -"


def test_every_role_but_the_supervisor_s_can_be_forked() -> None:
    assert {*MODULES, "supervisor"} == set(get_args(Role))
    assert all(callable(import_module(module).main) for module in MODULES.values())


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """The modules that a process has imported which has forked its first template."""
    done = subprocess.run([sys.executable, "-c", FORK], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_modules_of_all_roles_are_imported_before_the_first_template_is_forked(imported: set[str]) -> None:
    assert imported >= set(MODULES.values())


def test_no_process_imports_rich_with_its_dependencies(imported: set[str]) -> None:
    assert imported & {"attr", "pygments", "rich"} == set()
