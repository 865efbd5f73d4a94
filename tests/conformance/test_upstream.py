"""The suites of `suites.toml` against a node of their own. `--amqp-url` runs them against another broker instead."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from tests.broker import Broker
from tests.conformance import containers, redis
from tests.conformance.sources import Fetched, fetch
from tests.conformance.suites import Suite, load
from tests.raw import Address

pytestmark = [pytest.mark.broker, pytest.mark.slow]

INSIDE = Path(__file__).with_name("inside")
FETCHING_SECONDS = 600
ENDING_SECONDS = 30
LAST_WORDS = 300


class Elsewhere:
    """A broker that runs already; nothing here starts or ends it."""

    def __init__(self, address: Address) -> None:
        self.address = address

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill_all(self) -> None: ...


class Returning(Broker):
    """A node that comes back on the port it had, as a configured node does."""

    def start(self) -> None:
        super().start()
        self.command[self.command.index("--port") + 1] = str(self.address.port)


class Outcomes(NamedTuple):
    tests: dict[str, list[str]]
    """The outcome and the last words of each test, by node id."""
    unmatched: list[str]
    """Patterns of left-out tests that match none."""


@pytest.fixture
def start(request: pytest.FixtureRequest) -> Callable[[Path], containers.Node]:
    """A function that starts a node in a directory."""
    url = request.config.getoption("--amqp-url")
    if not url:
        return lambda directory: Returning(directory, acceptors=2, shards=2)
    parts = urlsplit(url)
    return lambda _: Elsewhere(Address(parts.hostname or "127.0.0.1", parts.port or 5672))


@pytest.fixture
def places(start: Callable[[Path], containers.Node], tmp_path: Path) -> Iterator[Callable[[Suite], dict[str, str]]]:
    """A function that starts the servers named in a suite's environment; all are stopped at the end."""
    with ExitStack() as stack:

        def begin(suite: Suite) -> dict[str, str]:
            wanted = " ".join(suite.environment.values())
            found: dict[str, str] = {}
            if "{docker}" in wanted:
                inside = tmp_path / "containers"
                inside.mkdir()
                return {"docker": stack.enter_context(containers.serve(containers.Containers(inside, start)))}
            if "{redis}" in wanted:
                found["redis"] = str(stack.enter_context(redis.serve(tmp_path)))
            node = start(tmp_path)
            stack.callback(node.stop)
            return found | {"host": node.address.host, "port": str(node.address.port)}

        yield begin


@pytest.mark.parametrize("suite", load(), ids=lambda suite: suite.name)
@pytest.mark.timeout(FETCHING_SECONDS + 4500)
def test_suite(suite: Suite, places: Callable[[Suite], dict[str, str]], tmp_path: Path) -> None:
    fetched = fetch(suite)
    outcomes = run(suite, fetched, places(suite), tmp_path)
    bad = [f"{what} {test}: {words[:LAST_WORDS]}" for test, (what, words) in outcomes.tests.items() if what != "passed"]
    assert not bad, f"{len(bad)} of {len(outcomes.tests)} in {tmp_path}\n" + "\n".join(bad)
    assert outcomes.tests, "no test was run"
    assert not outcomes.unmatched, "left out, but there is no such test"


def run(suite: Suite, fetched: Fetched, places: dict[str, str], directory: Path) -> Outcomes:
    """Run a suite in its own interpreter; AssertionError if it does not finish."""
    given, written, log = directory / "given.json", directory / "outcomes.json", directory / "suite.log"
    left_out = [entry.patterns() for entry in suite.left_out]
    given.write_text(json.dumps({"left_out": left_out, "port": int(places.get("port", 0)), "outcomes": str(written)}))
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "PYTEST_"))}
    environment = own | {name: value.format(**places) for name, value in suite.environment.items()}
    path = os.pathsep.join([str(fetched.python.parent), os.environ["PATH"]])
    environment |= {
        "PATH": path,
        "PYTHONPATH": str(INSIDE),
        "PENSTOCK_INSIDE": str(given),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    options = ["-q", "-p", "penstock_inside", "-p", "no:cacheprovider", *suite.options]
    command = [str(fetched.python), "-m", "pytest", *options, *suite.files]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=fetched.source, env=environment, stdout=out, stderr=out, start_new_session=True
        )
        try:
            process.wait(suite.minutes * 60)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # the suite writes the outcomes that it has
            process.wait(ENDING_SECONDS)
        finally:
            end(process)
    words = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(errors="replace"))
    ended = written.exists() and process.returncode in (0, 1)
    assert ended, f"no end, exit {process.returncode}:\n{words[-10 * LAST_WORDS :]}"
    return Outcomes(**json.loads(written.read_text()))


def end(process: subprocess.Popen[bytes]) -> None:
    """End the suite with all the processes it has left."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()
