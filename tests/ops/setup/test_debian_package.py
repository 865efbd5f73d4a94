"""The Debian package: built in one clean system, installed, upgraded and purged in others that have no compiler."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from penstock import __version__
from tests.broker.process import READY
from tests.ops.setup.chroot import Chroot, bootstrap
from tests.ops.setup.test_debian import PACKAGE, build_dependencies
from tests.ops.test_systemd import EXPOSURE
from tests.twins import ROOT

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
"""The minor version of the suite's."""
BUILD = {
    "PATH": "/usr/lib/ccache:/usr/sbin:/usr/bin:/sbin:/bin",
    "CCACHE_DIR": "/ccache",
    "PIP_NO_INDEX": "1",
    "PIP_FIND_LINKS": "/wheels",
}
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


def archive(kind: str, *options: str) -> Path:
    """Return an archive of a system made with these options."""
    name = f"{kind}-{hashlib.sha256(repr(options).encode()).hexdigest()[:8]}.tar"
    bootstrap(CACHE / name, *options)
    return CACHE / name


def fetch_wheels(folder: Path) -> None:
    """Download what penstock needs, with this machine's settings of pip, for the Python of the suite."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extra = project["project"]["optional-dependencies"]["traces"]
    needed = [*project["build-system"]["requires"], *project["project"]["dependencies"], *extra]
    platforms = [f"--platform=manylinux_2_{minor}_x86_64" for minor in range(5, GLIBC + 1)]
    platforms += [f"--platform=manylinux{name}_x86_64" for name in ("1", "2010", "2014")]
    options = ("--quiet", "--only-binary=:all:", "--implementation=cp", "--python-version=3.11")
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


def serve_one_message(system: Chroot) -> None:
    """Start a node as the system's user penstock, send a message through it from outside, and stop it."""
    with subprocess.Popen(system.command(START), stdout=subprocess.PIPE, text=True) as node:
        try:
            assert node.stdout is not None
            ready = READY.match(node.stdout.readline().rstrip())
            assert ready
            send_one_message(ready["host"], int(ready["port"]))
            assert system.output("penstock", "--config", CONFIGURATION, "ping").startswith("serving on ")
            assert system.output("stat", "-c", "%U", f"/proc/{ready['pid']}") == "penstock\n"
            system.output("sh", "-c", f"kill {ready['pid']}")
            assert node.wait() == 0
        except BaseException:
            node.kill()  # the node itself ends with the system
            raise


def send_one_message(host: str, port: int) -> None:
    """Publish a persistent message with a confirm, and consume it."""
    with pika.BlockingConnection(pika.ConnectionParameters(host, port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("orders", durable=True)
        channel.basic_publish("", "orders", b"one", pika.BasicProperties(delivery_mode=2), mandatory=True)
        _, _, body = next(channel.consume("orders", auto_ack=True))
        assert body == b"one"


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
