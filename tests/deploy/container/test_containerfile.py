"""The Containerfile, without an engine: what it copies is there, and it agrees with settings and documentation."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from penstock.settings import Settings
from penstock.settings.sources import load_settings
from tests.deploy.container import engine
from tests.twins import ROOT

FILE = ROOT / "deploy" / "container" / "Containerfile"
CONFIGURATION = ROOT / "deploy" / "container" / "penstock.toml"
PAGE = ROOT / "docs" / "containers.md"
LISTED = re.compile(r'^    "(\w+)", "\1\.\*",$', re.MULTILINE)


def instructions(name: str) -> list[str]:
    """Return the arguments of all instructions of a kind."""
    joined = re.sub(r"\\\n\s*", "", FILE.read_text())
    return [line.partition(" ")[2] for line in joined.splitlines() if line.startswith(f"{name} ")]


def variables() -> dict[str, str]:
    (text,) = instructions("ENV")
    return dict(pair.split("=", 1) for pair in text.split())


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings of a node in a container that was given none."""
    for name, value in variables().items():
        if name.startswith("PENSTOCK_"):
            monkeypatch.setenv(name, value)
    return load_settings(CONFIGURATION)


def test_a_node_is_reached_from_outside_on_the_ports_that_the_image_names(settings: Settings) -> None:
    assert (settings.host, settings.http.host) == ("0.0.0.0", "0.0.0.0")
    (exposed,) = instructions("EXPOSE")
    assert exposed.split() == [str(port) for port in (settings.port, settings.http.port, settings.http.metrics_port)]


def test_its_data_is_in_the_volume(settings: Settings) -> None:
    (volume,) = instructions("VOLUME")
    assert str(settings.data) == volume


def test_it_is_started_with_the_file_that_is_there() -> None:
    (copied,) = (each for each in instructions("COPY") if "penstock.toml" in each)
    source, target = copied.split()
    (command,) = instructions("CMD")
    assert json.loads(command) == ["serve", "--config", target] and ROOT / source == CONFIGURATION
    assert tomllib.loads(CONFIGURATION.read_text()) == {}


def test_the_context_has_what_a_wheel_is_made_of() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    packages = LISTED.findall(project)
    tree = tomllib.loads(project)
    files = [tree["project"]["readme"], *tree["project"]["license-files"], "pyproject.toml", "setup.py"]
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert len(packages) > 5 and {*packages, *files, str(CONFIGURATION.relative_to(ROOT))} <= kept
    assert all((ROOT / path).exists() for path in kept)


def test_the_page_names_its_files_and_variables() -> None:
    text = PAGE.read_text()
    names = [name for name in variables() if name.startswith("PENSTOCK_")]
    assert all(name in text for name in [*names, str(FILE.relative_to(ROOT)), str(Path("deploy/compose/compose.yaml"))])


def test_a_build_has_the_files_that_the_machines_pip_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an index comes what lies beside it: its pages link to files there."""
    for name in ("index/simple", "index/files", "wheels"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "ca.crt").touch()
    options = {
        "cert": f"{tmp_path}/ca.crt", "extra-index-url": f"file://{tmp_path}/index/simple",
        "find-links": f"{tmp_path}/wheels {tmp_path}/none",
    }  # fmt: skip
    monkeypatch.setattr(engine, "pip_options", lambda: options)
    (tmp_path / "run").mkdir()
    *volumes, _ = engine.pip_volumes(tmp_path / "run")
    assert volumes == [
        f"{tmp_path}/ca.crt:/mnt/pip/0:ro", f"{tmp_path}/index:/mnt/pip/1:ro", f"{tmp_path}/wheels:/mnt/pip/2:ro",
    ]  # fmt: skip
    assert (tmp_path / "run" / "pip.conf").read_text().splitlines() == [
        "[global]",
        "cert = /mnt/pip/0",
        "extra-index-url = file:///mnt/pip/1/simple",
        f"find-links = /mnt/pip/2 {tmp_path}/none",
    ]
