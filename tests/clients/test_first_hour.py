"""docs/first-hour.md, followed word for word: its commands are run, and their output is what the page shows, in form.

The page's blocks of Python are files, named by their first line. A line that begins with `$ ` is a command, and the
lines after it are its output: `…` stands for any text, or alone in its line for any lines; numbers, spaces and the
lines of tables need not be the same. A command that changes nothing is repeated until it shows what the page says, as a
user would.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest

from tests.broker import Broker
from tests.broker.process import ROOT
from tests.waiting import wait_for

pytestmark = pytest.mark.broker

PAGE = ROOT / "docs" / "first-hour.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
READ_ONLY = re.compile(r"^(cat|penstock (ping|health|flow\b|queue get))")
NUMBER = re.compile(r"\d[\d.,:]*")
RULE = re.compile(r"[━┏┓┡┩└┘─┬┴┳┻╇┃]+")


def blocks() -> Iterator[tuple[str, str]]:
    """Yield language and text of each block that the test follows."""
    for language, text in BLOCK.findall(PAGE.read_text()):
        assert language in ("console", "python"), language
        yield language, text


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the commands of a block, each with the lines that it is to print."""
    for part in text.split("$ ")[1:]:
        command, *printed = part.splitlines()
        yield command, printed


def in_form(line: str) -> str:
    """Return a line without what differs from run to run."""
    return NUMBER.sub("N", " ".join(RULE.sub("", line).split()))


def pattern_of(printed: list[str]) -> re.Pattern[str]:
    """Return a pattern for a whole output in form."""
    lines = [in_form(line) for line in printed]
    parts = [".*" if line == "…" else re.escape(line).replace("…", "[^\n]*") + "\n" for line in lines]
    return re.compile("".join(parts), re.DOTALL)


class Reader:
    """A reader of the page, with a directory, a node, and what is running in the background."""

    def __init__(self, directory: Path, broker: Broker) -> None:
        self.directory = directory
        self.background: list[subprocess.Popen[bytes]] = []
        self.address = f"{broker.address.host}:{broker.address.port}"
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        self.environment = {
            **clean, "PATH": f"{directory}:{os.environ['PATH']}", "PENSTOCK_DATA": str(broker.directory / "data"),
            "PYTHONPATH": str(ROOT),
        }  # fmt: skip
        for name, what in (("penstock", "-m ops"), ("python", "")):
            program = directory / name
            program.write_text(f'#!/bin/sh\nexec {sys.executable} {what} "$@"\n')
            program.chmod(0o755)

    def save(self, text: str) -> None:
        """Save a program of the page, with the port of this node."""
        name = text.partition("\n")[0].removeprefix("# ")
        (self.directory / name).write_text(text.replace("@127.0.0.1/", f"@{self.address}/"))

    def follow(self, command: str, printed: list[str]) -> None:
        """Run a command, and compare its output; again and again if it changes nothing."""
        if command.endswith("&"):
            self._start(command.removesuffix("&"))
            return
        pattern, found = pattern_of(printed), ""

        def is_shown() -> bool:
            nonlocal found
            found = self._run(command)
            return pattern.fullmatch(found) is not None

        with suppress(AssertionError):  # the one below says more
            wait_for(is_shown) if READ_ONLY.match(command) else is_shown()
        assert pattern.fullmatch(found), f"{command}: {printed}, but found:\n{found}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.background:
            process.kill()
            process.wait()

    def _start(self, command: str) -> None:
        process = subprocess.Popen(
            f"exec {command}", shell=True, cwd=self.directory, env=self.environment, stdin=subprocess.DEVNULL
        )
        self.background.append(process)

    def _run(self, command: str) -> str:
        done = subprocess.run(
            command, shell=True, cwd=self.directory, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        return "".join(f"{in_form(line)}\n" for line in done.stdout.splitlines() if in_form(line))


def test_the_first_hour(tmp_path: Path) -> None:
    (tmp_path / "reader").mkdir()
    with (
        Broker(tmp_path, "http.port=0", "http.metrics_port=0") as broker,
        Reader(tmp_path / "reader", broker) as reader,
    ):
        for language, text in blocks():
            if language == "python":
                reader.save(text)
                continue
            for command, printed in commands(text):
                reader.follow(command, printed)


def test_a_difference_is_seen() -> None:
    assert pattern_of(["…", "│ 0.1.1 … │ ann │"]).fullmatch("any\nlines\n│ N x │ ann │\n")
    assert not pattern_of(["…", "│ 0.1.1 … │ ann │"]).fullmatch("│ N x │ bob │\n")
    assert not pattern_of(["queue 'q' deleted"]).fullmatch("queue 'q' deleted\nand more\n")
