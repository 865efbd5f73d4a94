"""The distribution of the producer client alone: installed where there is neither the broker nor what that needs."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from importlib.metadata import requires
from pathlib import Path

import pytest

from penstock import __version__
from tests.raw import Address, Client
from tests.twins import ROOT

PROJECT = Path("packages", "penstock-client")
PUBLISHES = """
import importlib.util
import sys

from penstock.client import Producer

there = [name for name in ("lmdb", "zmq", "uvloop", "msgpack", "router") if importlib.util.find_spec(name)]
assert not there, there
with Producer(sys.argv[1]) as producer:
    producer.send(b"one", "orders", mandatory=True).result(30)
"""


def build(project: Path, distribution: str) -> Path:
    """Build a distribution, "wheel" or "sdist", as pip and build do: where penstock is not installed."""
    code = f"from setuptools import build_meta; build_meta.build_{distribution}('{distribution}s')"
    done = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = (project / f"{distribution}s").iterdir()
    return made


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project in a checkout with nothing else."""
    checkout = tmp_path_factory.mktemp("client") / "checkout"
    shutil.copytree(ROOT / PROJECT, checkout / PROJECT, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    shutil.copytree(
        ROOT / "penstock/client", checkout / "penstock/client", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(ROOT / "penstock/__init__.py", checkout / "penstock")
    return checkout / PROJECT


@pytest.fixture(scope="module")
def source(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project as its source distribution has it."""
    shutil.copytree(checkout.parents[1], copy := tmp_path_factory.mktemp("source") / "checkout")
    archive = build(copy / PROJECT, "sdist")
    with tarfile.open(archive) as opened:
        opened.extractall(copy.parent / "extracted", filter="data")
    (extracted,) = (copy.parent / "extracted").iterdir()
    shutil.rmtree(copy)
    return extracted


@pytest.fixture(scope="module", params=["checkout", "source"])
def wheel(request: pytest.FixtureRequest) -> Path:
    """The wheel, from a checkout and from the source distribution."""
    project: Path = request.getfixturevalue(request.param)
    return build(project, "wheel")


def run(program: str, packages: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program that finds only these packages, and Python's own."""
    command = [sys.executable, "-S", "-c", program, *arguments]
    environment = {"PYTHONPATH": str(packages)}
    return subprocess.run(command, env=environment, cwd=packages, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_it_has_the_client_and_nothing_else(wheel: Path) -> None:
    assert wheel.name == f"penstock_client-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as opened:
        names = {name for name in opened.namelist() if ".dist-info/" not in name}
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "penstock/client").glob("*.py")}
    assert names == modules | {"penstock/client/py.typed"}


@pytest.mark.long
def test_it_needs_what_the_client_of_penstock_needs(wheel: Path) -> None:
    """One list cannot be derived from the other: an extra of penstock installs the broker as well."""
    with zipfile.ZipFile(wheel) as opened:
        (metadata,) = (name for name in opened.namelist() if name.endswith("/METADATA"))
        lines = opened.read(metadata).decode().splitlines()
    wanted = {line.removeprefix("Requires-Dist: ").partition(";")[0] for line in lines if line.startswith("Requires")}
    known = [each for each in requires("penstock") or () if "extra == 'client'" in each.replace('"', "'")]
    known += [each for each in requires("penstock") or () if "extra == 'kombu'" in each.replace('"', "'")]
    assert {line for line in wanted if not line.startswith("Python")} >= {each.partition(";")[0] for each in known}


@pytest.mark.long
@pytest.mark.broker
def test_an_application_publishes_with_it_alone(wheel: Path, address: Address, tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(packages)
    missing = run("import penstock.client.aio", packages)
    assert missing.returncode and "pip install 'penstock-client[aio]'" in missing.stderr
    shutil.copytree(Path(sysconfig.get_path("purelib"), "pika"), packages / "pika")
    with Client.connect(address) as client:
        channel = client.channel()
        channel.call("queue.declare", queue="orders")
        done = run(PUBLISHES, packages, address.url)
        assert done.returncode == 0, done.stderr
        assert channel.depth("orders") == 1
        channel.call("queue.delete", queue="orders")
