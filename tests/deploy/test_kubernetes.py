"""The plain manifests fit the node that they start: its version, settings, times and memory. Their commands run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest
import yaml

from ops.supervisor import STOP_ORDER
from penstock import __version__
from penstock.memory.gauges import Gauges
from penstock.settings import Settings
from penstock.settings.sources import load_settings
from tests.broker import Broker
from tests.broker.process import ROOT
from tests.deploy.manifests import CHART, PLAIN, base, container, of_kind, pod
from tests.waiting import wait_for

CONFIG = PLAIN / "base" / "penstock.toml"
UNITS = {"Mi": 1 << 20, "Gi": 1 << 30}
NAME = "PENSTOCK_FIRST_USER__NAME"
USER_ID = 5672
HERE = ("host=127.0.0.1", "http.host=127.0.0.1", "http.port=0", "http.metrics_port=0")
"""A test listens to nobody else."""


def size(text: str) -> int:
    """Return a quantity of Kubernetes in bytes."""
    return int(text[:-2]) * UNITS[text[-2:]]


def volume(name: str) -> dict[str, Any]:
    """Return the temporary volume with a name."""
    (found,) = (each["emptyDir"] for each in pod(base())["volumes"] if each["name"] == name)
    return found


def test_image_and_chart_are_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert container(base())["image"] == f"penstock:{__version__}"
    assert chart["appVersion"] == chart["version"] == __version__


def test_the_chart_has_the_same_configuration() -> None:
    assert yaml.safe_load((CHART / "values.yaml").read_text())["config"] == CONFIG.read_text()


def test_no_password_is_in_the_repository() -> None:
    assert not of_kind(base(), "Secret")
    assert yaml.safe_load((CHART / "values.yaml").read_text())["user"]["password"] == ""


def test_the_configuration_is_valid_and_the_password_is_in_the_mounted_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "app")
    settings = load_settings(CONFIG)
    mounts = {each["name"]: Path(each["mountPath"]) for each in container(base())["volumeMounts"]}
    assert settings.first_user.name == "app" and settings.first_user.password_file == mounts["user"] / "password"
    assert settings.data.parent == mounts["data"]
    assert mounts["config"] / CONFIG.name == Path(container(base())["command"][-1])


def test_the_ports_are_those_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "app")
    settings = load_settings(CONFIG)
    ports = {"amqp": settings.port, "http": settings.http.port, "metrics": settings.http.metrics_port}
    assert {each["name"]: each["containerPort"] for each in container(base())["ports"]} == ports
    for service in of_kind(base(), "Service"):
        assert {each["targetPort"]: each["port"] for each in service["spec"]["ports"]} == ports


def test_a_stop_has_time() -> None:
    _, seconds = container(base())["lifecycle"]["preStop"]["exec"]["command"]
    assert pod(base())["terminationGracePeriodSeconds"] >= int(seconds) + 4 * sum(each for _, each in STOP_ORDER)


def test_the_gauges_fit_into_their_volume(tmp_path: Path) -> None:
    settings = Settings(acceptors=16, shards=16)
    places = settings.shards + settings.spare_shards
    with Gauges.create(
        tmp_path / "gauges", epoch=1, acceptors=16, shards=places, queues=settings.max_queues, pid=os.getpid()
    ):
        assert (tmp_path / "gauges").stat().st_size <= size(volume("gauges")["sizeLimit"])


def test_the_limit_of_memory_has_room_for_what_the_node_does_not_count() -> None:
    """Shared memory is charged to the container, and is not in memory.process_limit, which is all of its memory."""
    limits = container(base())["resources"]["limits"]
    settings = Settings(acceptors=max(1, int(limits["cpu"]) // 2))
    uncounted = sum(size(volume(name)["sizeLimit"]) for name in ("gauges", "runtime"))
    uncounted += settings.acceptors * settings.arena_bytes
    total = size(limits["memory"])
    assert total - total * settings.memory.stop_percent // 100 > 2 * uncounted


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory like the root of a volume: of root, and of the group that `fsGroup` names."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv")
    path = Path(tempfile.mkdtemp(prefix="volume-", dir="/tmp"))
    try:
        os.chown(path, 0, USER_ID)
        path.chmod(0o2775)
        yield path
    finally:
        shutil.rmtree(path)


class Pod:
    """The node of the manifests, with its files in a directory of its own."""

    def __init__(self, directory: Path, *by: str) -> None:
        self.config, password = directory / "penstock.toml", directory / "password"
        text = CONFIG.read_text().replace("/etc/penstock-user/password", str(password))
        self.config.write_text(text.replace("/var/lib/penstock/node", str(directory / "data")))
        password.write_text("secret")
        environment = {NAME: "app", "XDG_RUNTIME_DIR": str(directory)}
        options = ("--config", str(self.config))
        self.broker = Broker(directory, *HERE, options=options, environment=environment, by=by)

    def run(self, command: list[str]) -> int:
        """Run a command of the manifests beside the node; return its exit status."""
        words = [str(self.config) if word == container(base())["command"][-1] else word for word in command]
        program = [sys.executable, "-m", "ops"] if words[0] == "penstock" else words[:1]
        done = subprocess.run(
            [*program, *words[1:]],
            cwd=ROOT, env={**os.environ, **self.broker.environment}, capture_output=True, check=False,
        )  # fmt: skip
        return done.returncode

    def probe(self, name: str) -> int:
        """Run a probe."""
        return self.run(container(base())[f"{name}Probe"]["exec"]["command"])

    def connect(self) -> pika.BlockingConnection:
        """Return a connection of the first user."""
        login = pika.PlainCredentials("app", "secret")
        return pika.BlockingConnection(pika.ConnectionParameters(*self.broker.address, credentials=login))


@pytest.mark.broker
@pytest.mark.long
def test_the_probes(tmp_path: Path) -> None:
    node = Pod(tmp_path)
    with node.broker as broker:
        assert [node.probe(name) for name in ("startup", "readiness", "liveness")] == [0, 0, 0]
        (router,) = broker.children("router")
        os.kill(router, signal.SIGSTOP)
        wait_for(lambda: node.probe("readiness"), what="a node that is not ready, as one of its processes hangs")
        assert [node.probe(name) for name in ("startup", "liveness")] == [0, 0]
        os.kill(router, signal.SIGCONT)
    assert node.probe("liveness") == 1


@pytest.mark.broker
@pytest.mark.slow
def test_a_stop(tmp_path: Path) -> None:
    """Clients are served during preStop, then told why they are closed; the pod ends in its time."""
    node = Pod(tmp_path)
    with node.connect() as connection:
        channel = connection.channel()
        began = time.monotonic()
        assert node.run(container(base())["lifecycle"]["preStop"]["exec"]["command"]) == 0
        channel.queue_declare("work", durable=True)
        node.broker.stop()
        assert time.monotonic() - began < pod(base())["terminationGracePeriodSeconds"]
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="320"):
            connection.process_data_events(time_limit=30)


@pytest.mark.broker
@pytest.mark.long
def test_a_node_of_another_user_keeps_its_data_in_a_volume_of_root(place: Path) -> None:
    security = pod(base())["securityContext"]
    assert {security[key] for key in ("runAsUser", "runAsGroup", "fsGroup")} == {USER_ID}
    node = Pod(place, "setpriv", f"--reuid={USER_ID}", f"--regid={USER_ID}", "--clear-groups", "--no-new-privs")
    with node.broker as broker:
        node.connect().close()
        assert (place / "data").stat().st_uid == USER_ID
        broker.stop()
        broker.start()
        node.connect().close()
