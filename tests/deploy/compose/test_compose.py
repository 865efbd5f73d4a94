"""The composition of a node, Prometheus and Grafana: its files are there, and their names, ports and paths agree."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.settings import Settings
from penstock.settings.sources import load_settings
from penstock.settings.values import MIB
from tests.deploy.container.test_containerfile import instructions
from tests.twins import ROOT

DIRECTORY = ROOT / "deploy" / "compose"
GRAFANA = DIRECTORY / "grafana"
UNITS = {"m": MIB, "g": 1024 * MIB}


def read(file: Path) -> Any:
    return yaml.safe_load(file.read_text())


@pytest.fixture
def compose() -> dict[str, Any]:
    found: dict[str, Any] = read(DIRECTORY / "compose.yaml")
    return found


def mounts(service: dict[str, Any]) -> dict[str, str]:
    """Return the source of each mounted path."""
    return {parts[1]: parts[0] for parts in (volume.split(":") for volume in service["volumes"])}


def nbytes(text: str) -> int:
    return int(text[:-1]) * UNITS[text[-1]]


def test_what_it_mounts_is_there(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for source in mounts(service).values():
            assert (DIRECTORY / source).exists() if source.startswith(".") else source in compose["volumes"]
        assert set(service.get("secrets", ())) <= set(compose["secrets"])
    build = compose["services"]["penstock"]["build"]
    assert (DIRECTORY / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).is_file()


def test_secrets_are_ignored_by_git_and_named_by_the_page(compose: dict[str, Any]) -> None:
    text = (ROOT / "docs" / "containers.md").read_text()
    for secret in compose["secrets"].values():
        directory, name = secret["file"].removeprefix("./").split("/")
        assert f"{DIRECTORY.relative_to(ROOT)}/{directory}/" in (ROOT / ".gitignore").read_text().splitlines()
        assert f"{directory}/{name}" in text


def test_the_node_gets_settings_that_there_are(compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    service = compose["services"]["penstock"]
    for name, value in service["environment"].items():
        monkeypatch.setenv(name, value)
    settings = load_settings()
    assert str(settings.first_user.password_file) == f"/run/secrets/{service['secrets'][0]}"
    assert settings.first_user.name not in settings.amqp.loopback_users


def test_the_node_writes_to_its_volume_and_to_memory_only(compose: dict[str, Any]) -> None:
    service = compose["services"]["penstock"]
    (volume,) = instructions("VOLUME")
    (user,) = instructions("USER")
    uid, gid = user.split(":")
    assert service["read_only"] and mounts(service) == {volume: "data"}
    assert service["tmpfs"] == ["/tmp", f"/run/penstock:uid={uid},gid={gid},mode=0700"]
    assert nbytes(service["shm_size"]) < nbytes(service["mem_limit"])


def test_its_ports_are_those_of_the_settings_and_metrics_are_not_among_them(compose: dict[str, Any]) -> None:
    settings = Settings()
    published = {port.rpartition(":")[2] for port in compose["services"]["penstock"]["ports"]}
    assert published == {str(settings.port), str(settings.http.port)}
    assert all("127.0.0.1" in port for service in compose["services"].values() for port in service["ports"])


def test_its_health_is_that_of_the_image(compose: dict[str, Any]) -> None:
    found = compose["services"]["penstock"]["healthcheck"]
    options, _, command = instructions("HEALTHCHECK")[0].partition(" CMD ")
    given = dict(re.findall(r"--([\w-]+)=(\S+)", options))
    assert found["test"] == ["CMD", *json.loads(command)]
    assert {name.replace("_", "-"): str(found[name]) for name in found.keys() - {"test"}} == given


def test_prometheus_scrapes_the_node(compose: dict[str, Any]) -> None:
    configuration = read(DIRECTORY / "prometheus.yml")
    (target,) = configuration["scrape_configs"][0]["static_configs"][0]["targets"]
    host, _, port = target.partition(":")
    assert host in compose["services"] and int(port) == Settings().http.metrics_port
    paths = mounts(compose["services"]["prometheus"])
    assert all(f"/etc/prometheus/{name}" in paths for name in configuration["rule_files"])
    assert (
        f"--config.file={next(path for path in paths if path.endswith('.yml'))}"
        in (compose["services"]["prometheus"]["command"])
    )


def test_prometheus_takes_its_configuration(compose: dict[str, Any], tmp_path: Path) -> None:
    """With all files where the container has them."""
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    for path, source in mounts(compose["services"]["prometheus"]).items():
        if source.startswith("."):
            shutil.copy(DIRECTORY / source, tmp_path / Path(path).name)
    command = ["promtool", "check", "config", str(tmp_path / "prometheus.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 rule files found" in done.stdout


def test_grafana_finds_its_source_and_the_dashboard(compose: dict[str, Any]) -> None:
    paths = mounts(compose["services"]["grafana"])
    for kind in ("datasources", "dashboards"):
        assert (DIRECTORY / paths[f"/etc/grafana/provisioning/{kind}"]).resolve() == GRAFANA / kind
    (source,) = read(GRAFANA / "datasources" / "prometheus.yaml")["datasources"]
    assert source["isDefault"] and source["type"] == "prometheus"
    ports = {port.rpartition(":")[2] for port in compose["services"]["prometheus"]["ports"]}
    assert source["url"] in {f"http://prometheus:{port}" for port in ports}
    (provider,) = read(GRAFANA / "dashboards" / "penstock.yaml")["providers"]
    (dashboard,) = (Path(path) for path in paths if path.endswith(".json"))
    assert provider["type"] == "file" and dashboard.parent == Path(provider["options"]["path"])
    variables = json.loads((DIRECTORY / paths[str(dashboard)]).read_text())["templating"]["list"]
    assert source["type"] in {each["query"] for each in variables if each["type"] == "datasource"}
