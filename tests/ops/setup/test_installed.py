"""penstock installed from its wheel, beside an application that has packages of the same names as its programs."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from ops.compiled import extension_modules
from tests.broker import Broker
from tests.ops.setup.test_build import BUILD_FILES
from tests.twins import ROOT

pytestmark = [pytest.mark.broker, pytest.mark.long]

PROGRAMS = ("acceptor", "console", "load", "ops", "pipeline", "router", "shard")
FOR_APPLICATIONS = ("penstock", "pyspark_penstock")
PIP_OPTIONS = ("--quiet", "--no-deps", "--no-index", "--no-compile")
APPLICATION = """
import sys
from importlib import import_module

import pika
import penstock.client

for name in sys.argv[2:]:
    assert import_module(name).OWNER == "application"

with pika.BlockingConnection(pika.URLParameters(sys.argv[1])) as connection:
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("orders")
    channel.basic_publish("", "orders", b"one", mandatory=True)
"""


class Installation(NamedTuple):
    bin: Path
    packages: Path

    def python(self, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
        command = [str(self.bin / "python"), *arguments]
        done = subprocess.run(command, cwd=self.bin, env=environment or {}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


def make(cwd: Path, *arguments: str) -> None:
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def make_wheel(project: Path) -> Path:
    """Make a wheel of this checkout with the modules that it has compiled."""
    project.mkdir()
    for name in BUILD_FILES:
        shutil.copy(ROOT / name, project)
    for name in (*PROGRAMS, *FOR_APPLICATIONS):
        shutil.copytree(ROOT / name, project / name, ignore=shutil.ignore_patterns("*_cy.c", "*.so", "__pycache__"))
    make(project, "setup.py", "--quiet", "build_py")
    (built,) = (project / "build").glob("lib*")
    for name in extension_modules():
        (library,) = ROOT.glob(name.replace(".", "/") + ".*.so")
        shutil.copy(library, built / library.relative_to(ROOT))
    make(project, "setup.py", "--quiet", "bdist_wheel", "--skip-build")
    (wheel,) = (project / "dist").glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """A virtual environment with the wheel, and with the packages that it needs from the environment of the tests."""
    directory = tmp_path_factory.mktemp("installation")
    wheel = make_wheel(directory / "project")
    venv = directory / "venv"
    make(directory, "-m", "venv", "--without-pip", str(venv))
    python = str(venv / "bin" / "python")
    make(directory, "-m", "pip", "--python", python, "install", *PIP_OPTIONS, str(wheel))
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(venv), "platbase": str(venv)}))
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return Installation(venv / "bin", packages)


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An application whose packages are named like those of penstock's programs."""
    directory = tmp_path_factory.mktemp("application")
    for name in PROGRAMS:
        (directory / name).mkdir()
        (directory / name / "__init__.py").write_text("OWNER = 'application'\n")
    (directory / "application.py").write_text(APPLICATION)
    return directory


def test_no_name_is_taken_from_applications(installation: Installation) -> None:
    found = "import sys; from importlib.util import find_spec; print([bool(find_spec(name)) for name in sys.argv[1:]])"
    assert installation.python("-c", found, *FOR_APPLICATIONS) == "[True, True]\n"
    assert installation.python("-c", found, *PROGRAMS) == f"{[False] * len(PROGRAMS)}\n"
    listed = "from importlib.metadata import files; print(*{path.parts[0] for path in files('penstock')})"
    top = {name for name in installation.python("-c", listed).split() if name != ".." and ".dist-info" not in name}
    assert top == {*FOR_APPLICATIONS, "penstock_programs"}


def test_the_programs_are_compiled(installation: Installation) -> None:
    code = (
        "from penstock.programs import put_folder_first; put_folder_first(); from importlib import import_module;"
        "from ops.compiled import extension_modules, uncompiled; assert uncompiled() == [];"
        "[print(import_module(name).__file__) for name in extension_modules()]"
    )
    files = installation.python("-c", code).split()
    assert len(files) == len(extension_modules())
    assert all(file.endswith(".so") and file.startswith(str(installation.packages)) for file in files)


def test_a_report_has_its_templates(installation: Installation) -> None:
    code = (
        "from penstock.programs import put_folder_first; put_folder_first();"
        "from pipeline.answers import TABLES; from pipeline.report.contents import Answer, Report;"
        "from pipeline.report import page; print(page.__file__);"
        "answers = {table.name: Answer(table, [], False, 1.0) for table in TABLES};"
        "print(page.page(Report('/t', 0, 60_000_000, 300_000_000, answers=answers)))"
    )
    file, _, text = installation.python("-c", code).partition("\n")
    assert file.startswith(str(installation.packages))
    assert text.startswith("<!doctype html>") and "Telemetry has no rows of this time" in text
    assert ".scroll { overflow-x: auto;" in text


def test_a_node_and_an_application_have_packages_of_the_same_names(
    installation: Installation, application: Path, tmp_path: Path
) -> None:
    """PYTHONPATH names the application for both; penstock's processes find their own packages all the same."""
    environment = {"PYTHONPATH": str(application)}
    program = [str(installation.bin / "penstock")]
    checkout = {ROOT / name for name in (*PROGRAMS, *FOR_APPLICATIONS)}
    with Broker(tmp_path, environment=environment, program=program) as broker:
        url = broker.address.url
        installation.python(str(application / "application.py"), url, *PROGRAMS, environment=environment)
        status = broker.penstock("status", "--where", "ready=1")
        assert status.returncode == 0, status.stderr
        assert "orders" in status.stdout
        for process in broker.processes():
            mapped = {Path(region.path) for region in process.memory_maps() if ".cpython-" in region.path}
            own = {path for path in mapped if not checkout.isdisjoint(path.parents)}
            assert not own, "uses the checkout"
        good = ["-m", "penstock.programs", "load.good_client", url, "good", "10", "0.5"]
        assert '"done": 5' in installation.python(*good, environment=environment)
