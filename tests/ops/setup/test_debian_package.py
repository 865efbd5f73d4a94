"""The Debian package: built in one clean system, installed, upgraded and purged in others that have no compiler."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pika
import pytest

from penstock import __version__
from tests.broker.process import READY
from tests.ops.setup.booted import CONTROL_GROUPS, Booted
from tests.ops.setup.chroot import Chroot, bootstrap
from tests.ops.setup.test_debian import PACKAGE, build_dependencies
from tests.ops.test_systemd import EXPOSURE
from tests.twins import ROOT
from tests.waiting import wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.broker,
    pytest.mark.timeout(3600),
    pytest.mark.xdist_group("debian package"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make systems to build and install in"),
    pytest.mark.skipif(shutil.which("mmdebstrap") is None, reason="mmdebstrap is not installed"),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="wheels are fetched for amd64"),
]

CACHE = ROOT / "build" / "debian"
"""Kept between runs: two systems, wheels, and compiled modules. Without it the first test takes some ten minutes."""
GLIBC = 36
"""The minor version of the older suite's."""
BUILD = {
    "PATH": "/usr/lib/ccache:/usr/sbin:/usr/bin:/sbin:/bin",
    "CCACHE_DIR": "/ccache",
    "PIP_NO_INDEX": "1",
    "PIP_FIND_LINKS": "/wheels",
}
"""Builds find compilers that remember, and packages without a network."""
DEPENDENCIES = ("python3", "systemd")
"""The packages that it depends on, which apt downloads once and for all."""
MIB = 1 << 20
LARGEST = 20 * MIB
NAME = f"penstock_{__version__}_amd64.deb"
BUMPED = f"{__version__}+1"
CONFIGURATION = "/etc/penstock/penstock.toml"
START = (
    "runuser", "-u", "penstock", "--", "penstock", "serve", "--config", CONFIGURATION, "--port", "0",
    "--set", "http.enabled=false",
)  # fmt: skip
CLIENT = """
import sys
import pika

with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1")) as connection:
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("orders", durable=True)
    if sys.argv[1] == "publish":
        channel.basic_publish("", "orders", b"one", pika.BasicProperties(delivery_mode=2), mandatory=True)
    else:
        print(next(channel.consume("orders", auto_ack=True))[2].decode())
"""
IMPATIENT = """
[Service]
WatchdogSec=3
TimeoutAbortSec=1
"""


def archive(kind: str, *options: str, suite: str = "bookworm") -> Path:
    """Return an archive of a system made with these options."""
    name = f"{kind}-{hashlib.sha256(repr((options, suite)).encode()).hexdigest()[:8]}.tar"
    bootstrap(CACHE / name, *options, suite=suite)
    return CACHE / name


def fetch_wheels(folder: Path, *others: str, python: str = "3.11") -> None:
    """Download what penstock needs, and others, with this machine's settings of pip, for a Python of a suite."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extra = project["project"]["optional-dependencies"]["traces"]
    needed = [*project["build-system"]["requires"], *project["project"]["dependencies"], *extra, *others]
    platforms = [f"--platform=manylinux_2_{minor}_x86_64" for minor in range(5, GLIBC + 1)]
    platforms += [f"--platform=manylinux{name}_x86_64" for name in ("1", "2010", "2014")]
    options = ("--quiet", "--only-binary=:all:", "--implementation=cp", f"--python-version={python}")
    command = [sys.executable, "-m", "pip", "download", *options, *platforms, "--dest", folder, *needed]
    subprocess.run(command, check=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chroot]:
    """A system in which the package has been built, with /source for its source."""
    folders = CACHE / "wheels", CACHE / "ccache"
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    fetch_wheels(folders[0])
    source = tmp_path_factory.mktemp("debian") / "penstock"
    subprocess.run([PACKAGE / "source.sh", source], check=True)
    system = archive("build", "--variant=buildd", f"--include={','.join([*build_dependencies(), 'ccache', 'lintian'])}")
    with Chroot(tmp_path_factory.mktemp("build"), system, *folders) as chroot:
        chroot.copy(source, "/source")
        build = "cd /source/penstock && dpkg-buildpackage --build=binary --no-sign"
        chroot.output("unshare", "--net", "sh", "-c", build, environment=BUILD)
        yield chroot


@pytest.fixture(scope="module")
def package(built: Chroot, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package."""
    path = tmp_path_factory.mktemp("package") / NAME
    path.write_bytes(built.read(f"/source/{NAME}"))
    return path


@pytest.fixture
def clean(tmp_path: Path) -> Iterator[Chroot]:
    """A minimal system without a compiler, where apt needs no network to install what the package depends on."""
    download = f'--customize-hook=chroot "$1" apt-get install --download-only --yes {" ".join(DEPENDENCIES)}'
    root = tmp_path / "root"
    root.mkdir()
    with Chroot(root, archive("clean", "--variant=minbase", "--skip=cleanup/apt", download)) as chroot:
        assert chroot.run("which", "cc", "gcc").stdout == ""
        yield chroot


@pytest.fixture
def booted(tmp_path: Path) -> Iterator[Booted]:
    """A minimal system that systemd has booted."""
    if CONTROL_GROUPS is None:
        pytest.skip("this machine has no control groups of version 2")
    root = tmp_path / "root"
    root.mkdir()
    packages = ",".join((*DEPENDENCIES, "dbus"))
    with Booted(root, archive("booted", "--variant=minbase", f"--include={packages}")) as system:
        yield system


def install(system: Chroot, package: Path) -> None:
    """Install a package, or upgrade to it, without a network."""
    system.copy(package, "/root")
    install = ("apt-get", "install", "--yes", "--no-install-recommends", f"/root/{package.name}")
    system.output("unshare", "--net", *install)


def later(package: Path) -> Path:
    """Return a later version of the package."""
    folder = package.parent / "later"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(["dpkg-deb", "--raw-extract", package, folder], check=True)
    control = folder / "DEBIAN" / "control"
    control.write_text(control.read_text().replace(f"Version: {__version__}\n", f"Version: {BUMPED}\n"))
    made = package.with_name(NAME.replace(__version__, BUMPED))
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", folder, made], check=True)
    return made


def remains(system: Chroot) -> str:
    """Return all that a system has of penstock."""
    paths = system.output("find", "/", "-xdev", "-name", "*penstock*", "-not", "-path", "/root/*")
    return paths + system.run("getent", "passwd", "penstock").stdout + system.run("getent", "group", "penstock").stdout


@contextmanager
def serving(system: Chroot, *command: str) -> Iterator[re.Match[str]]:
    """Start a node in a system, and stop it at the end. What it says when it is ready is returned."""
    with subprocess.Popen(system.command(command), stdout=subprocess.PIPE, text=True) as node:
        try:
            assert node.stdout is not None
            ready = READY.match(node.stdout.readline().rstrip())
            assert ready
            yield ready
            system.output("sh", "-c", f"kill {ready['pid']}")
            assert node.wait() == 0
        except BaseException:
            node.kill()  # the node itself ends with the system
            raise


def serve_one_message(system: Chroot) -> None:
    """Start a node as the system's user penstock, send a message through it from outside, and stop it."""
    with serving(system, *START) as ready:
        send_one_message(ready["host"], int(ready["port"]))
        assert system.output("penstock", "--config", CONFIGURATION, "ping").startswith("serving on ")
        assert system.output("stat", "-c", "%U", f"/proc/{ready['pid']}") == "penstock\n"


def send_one_message(host: str, port: int) -> None:
    """Publish a persistent message with a confirm, and consume it."""
    with pika.BlockingConnection(pika.ConnectionParameters(host, port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("orders", durable=True)
        channel.basic_publish("", "orders", b"one", pika.BasicProperties(delivery_mode=2), mandatory=True)
        _, _, body = next(channel.consume("orders", auto_ack=True))
        assert body == b"one"


def client(system: Booted, action: str) -> str:
    """Publish or consume a persistent message on a system's own loopback; return the consumed body."""
    command = ["nsenter", "--target", str(system.first), "--net", sys.executable, "-c", CLIENT, action]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def has_restarted(system: Booted, times: int) -> bool:
    """Tell whether systemd has started the node again so many times, and it is ready."""
    return (system.property("NRestarts"), system.property("ActiveState")) == (str(times), "active")


def test_lintian_finds_nothing(built: Chroot) -> None:
    said = built.output("lintian", "--allow-root", "--fail-on", "error,warning", f"/source/{NAME}")
    assert said == ""


def test_it_is_small_and_has_neither_sources_in_c_nor_debugging_information(built: Chroot, package: Path) -> None:
    assert package.stat().st_size < LARGEST
    built.output("dpkg-deb", "--extract", f"/source/{NAME}", "/unpacked")
    names = built.output("find", "/unpacked", "-type", "f").splitlines()
    assert not [name for name in names if name.endswith((".c", ".h", ".pyx", ".pxd", ".pyc", ".debug"))]
    libraries = [name for name in names if ".so" in Path(name).name]
    assert any("/penstock/amqp/scan_cy." in name for name in libraries)
    sections = built.output("readelf", "--wide", "--section-headers", *libraries)
    assert ".text" in sections and ".debug_" not in sections


def test_an_installed_node_serves_a_client_from_outside(package: Path, clean: Chroot) -> None:
    install(clean, package)
    assert clean.output("penstock", "--version") == f"penstock {__version__}\n"
    assert clean.output("stat", "-c", "%U %a", "/var/lib/penstock") == "penstock 700\n"
    assert clean.output("systemctl", "is-enabled", "penstock") == "enabled\n"
    for page in ("man1/penstock.1.gz", "man5/penstock.toml.5.gz"):
        assert ".TH PENSTOCK" in clean.output("zcat", f"/usr/share/man/{page}")
    assert clean.output("find", "/usr/lib/penstock/lib", "-path", "*/penstock/__pycache__/__init__.*.pyc")
    serve_one_message(clean)


def test_the_installed_unit_is_valid_and_little_exposed(package: Path, clean: Chroot) -> None:
    install(clean, package)
    said = clean.run("systemd-analyze", "verify", "--man=no", "penstock.service")
    assert (said.returncode, said.stderr) == (0, "")
    clean.output("systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE}", "penstock.service")


def test_an_upgrade_keeps_the_configuration_and_the_data_and_a_purge_leaves_nothing(
    package: Path, clean: Chroot
) -> None:
    untouched = remains(clean)
    install(clean, package)
    serve_one_message(clean)
    clean.output("sh", "-c", f"echo 'log_level = \"debug\"' >>{CONFIGURATION}")
    edited = clean.read(CONFIGURATION)
    owner = clean.output("getent", "passwd", "penstock")

    install(clean, later(package))
    assert clean.output("dpkg-query", "--show", "--showformat=${Version}", "penstock") == BUMPED
    assert clean.read(CONFIGURATION) == edited
    assert clean.output("getent", "passwd", "penstock") == owner
    serve_one_message(clean)

    clean.output("dpkg", "--remove", "penstock")
    assert clean.read(CONFIGURATION) == edited and clean.output("ls", "/var/lib/penstock")
    clean.output("dpkg", "--purge", "penstock")
    assert remains(clean) == untouched == ""


def test_systemd_starts_reloads_upgrades_and_stops_a_node(package: Path, booted: Booted) -> None:
    install(booted, package)
    assert booted.property("ActiveState") == "active"
    started = booted.property("MainPID")
    client(booted, "publish")
    booted.output("sh", "-c", f"echo 'log_level = \"debug\"' >>{CONFIGURATION}")
    booted.output("systemctl", "reload", "penstock")
    wait_for(lambda: "configuration reloaded" in booted.journal(), what="the configuration")

    said = booted.output("penstock", "--config", CONFIGURATION, "upgrade")
    assert "supervisor 0 replaced" in said
    wait_for(lambda: booted.property("WatchdogTimestamp"), what="a sign of life")
    assert [booted.property(name) for name in ("MainPID", "NRestarts", "ActiveState")] == [started, "0", "active"]
    assert client(booted, "consume") == "one\n"

    booted.output("systemctl", "stop", "penstock")
    assert [booted.property(name) for name in ("Result", "ActiveState")] == ["success", "inactive"]


def test_systemd_starts_a_node_again_whose_supervisor_dies_or_hangs(package: Path, booted: Booted) -> None:
    install(booted, package)
    booted.output("mkdir", "/run/systemd/system/penstock.service.d")
    booted.output("sh", "-c", f"echo '{IMPATIENT}' >/run/systemd/system/penstock.service.d/watchdog.conf")
    booted.output("systemctl", "daemon-reload")
    booted.output("systemctl", "restart", "penstock")
    client(booted, "publish")
    for restarts, signal in ((1, "KILL"), (2, "STOP")):
        booted.output("systemctl", "kill", "--kill-whom=main", f"--signal={signal}", "penstock")
        wait_for(partial(has_restarted, booted, restarts), what=f"restart {restarts}")
    assert client(booted, "consume") == "one\n"


def test_systemd_does_not_repeat_a_refusal_and_a_newer_package_goes_on_with_the_messages(
    package: Path, booted: Booted
) -> None:
    untouched = remains(booted)
    install(booted, package)
    client(booted, "publish")
    booted.output("cp", CONFIGURATION, "/root/kept")
    booted.output("sh", "-c", f"echo 'log_level = 7' >>{CONFIGURATION}")
    assert booted.run("systemctl", "restart", "penstock").returncode == 1
    assert [booted.property(name) for name in ("Result", "NRestarts", "ExecMainStatus")] == ["exit-code", "0", "2"]
    assert "log_level" in booted.journal()
    booted.output("cp", "/root/kept", CONFIGURATION)
    booted.output("systemctl", "start", "penstock")

    install(booted, later(package))
    assert booted.property("ActiveState") == "active"
    assert client(booted, "consume") == "one\n"

    booted.output("dpkg", "--purge", "penstock")
    assert remains(booted) == untouched == ""
