"""The way of docs/first-hour.md from an empty directory to a held producer, timed: `make first-hour`.

The reader's commands are those of the page: clone the repository, `make serve`, install pika, declare a queue, publish.
Nothing of this checkout's environment is used, nor what pip has downloaded before. The way ends when the console, in a
real browser, shows the producer as held. Exit status 1 if it took more than ten minutes.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.browser import browser
from tests.console.static.console import Console
from tests.twins import ROOT

MOST_SECONDS = 600.0
PAGE = ROOT / "docs" / "first-hour.md"
OWN = ("PENSTOCK_", "PYTHON", "VIRTUAL_", "MAKE", "MFLAGS")
"""Beginnings of variables that belong to this checkout, or to the command that was given in it."""
READY = re.compile(r"penstock ready amqp=(\S+) ")
HTTP = re.compile(r"http[^\n]*api[^\n]*?(127\.0\.0\.1:\d+)")
PRODUCER = re.compile(r"```python\n(# produce\.py\n.*?)```", re.DOTALL)
DECLARE = re.compile(r"^\$ (penstock queue declare .*)$", re.MULTILINE)


class Clock:
    """Prints how long each step took."""

    def __init__(self) -> None:
        self.began = self.last = time.monotonic()

    def step(self, name: str) -> None:
        """Print the time since the last step."""
        now = time.monotonic()
        print(f"{now - self.last:7.1f} s  {name}", flush=True)
        self.last = now

    @property
    def seconds(self) -> float:
        """The time of all steps."""
        return self.last - self.began


def environment(home: Path) -> dict[str, str]:
    """Return the environment of a new user, with free ports for the node."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
    return kept | {
        "XDG_DATA_HOME": str(home / "data"), "PIP_NO_CACHE_DIR": "1",
        "PENSTOCK_PORT": "0", "PENSTOCK_HTTP__PORT": "0", "PENSTOCK_HTTP__METRICS_PORT": "0",
    }  # fmt: skip


def run(command: str, directory: Path, variables: dict[str, str]) -> str:
    """Run a command of the page; return what it printed. CalledProcessError if it fails."""
    done = subprocess.run(
        command, shell=True, cwd=directory, env=variables, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


@contextmanager
def started(command: str, directory: Path, variables: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Run a command beside the next ones, as in another terminal."""
    process = subprocess.Popen(
        shlex.split(command), cwd=directory, env=variables, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate()


def until(pattern: re.Pattern[str], process: subprocess.Popen[str]) -> str:
    """Read what a command prints until a line matches; return the match. EOFError if it ends before."""
    assert process.stdout is not None
    for line in process.stdout:
        if found := pattern.match(line):
            return found[1]
    raise EOFError(f"{process.args} has ended")


def walk(home: Path, clock: Clock) -> None:
    """Go the way."""
    page, variables = PAGE.read_text(), environment(home)
    run(f"git clone --quiet {shlex.quote(str(ROOT))} penstock", home, variables)
    clock.step("git clone")
    checkout = home / "penstock"
    variables["PATH"] = f"{checkout}/.venv/bin:{variables['PATH']}"
    with started("make serve", checkout, variables) as node:
        address = until(READY, node)
        clock.step("make serve, until it is ready")
        run("pip install --quiet pika", checkout, variables)
        clock.step("pip install pika")
        (declare,) = DECLARE.findall(page)
        run(declare, checkout, variables)
        clock.step("penstock queue declare")
        (program,) = PRODUCER.findall(page)
        (home / "produce.py").write_text(program.replace("@127.0.0.1/", f"@{address}/"))
        with started("python produce.py", home, variables) as producer:
            until(re.compile(r"(800)\n"), producer)
            clock.step("python produce.py, until it is held")
            api = HTTP.search(run("penstock health", checkout, variables))
            assert api is not None
            (home / "browser").mkdir()
            with browser(home / "browser") as chromium:
                console = Console(chromium, f"http://{api[1]}")
                console.log_in()
                console.go("flow")
                console.wait_for_text("orders", "main")
                console.wait_for_text("guest", "main")
                console.page.picture(home / "held.png")
            clock.step("seen in the console, with the login")


def main(arguments: Sequence[str] | None = None) -> int:
    """Time the way; return 1 if it took too long. An argument is a file for a picture of the console."""
    pictures = sys.argv[1:] if arguments is None else arguments
    clock = Clock()
    with tempfile.TemporaryDirectory(prefix="first-hour-") as directory:
        walk(Path(directory), clock)
        for picture in pictures:
            Path(picture).write_bytes((Path(directory) / "held.png").read_bytes())
    print(f"{clock.seconds:7.1f} s  in all, of at most {MOST_SECONDS:.0f}")
    return int(clock.seconds > MOST_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
