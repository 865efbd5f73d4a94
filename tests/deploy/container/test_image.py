"""The image as a team uses it: built from the Containerfile, run with a read-only root file system, used by a client
outside of it, stopped, and replaced on the same volume.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest

from penstock import __version__
from tests.deploy.container.engine import BUILD_SECONDS, Engine, installed
from tests.ports import free_port
from tests.twins import ROOT
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.broker, pytest.mark.timeout(BUILD_SECONDS + 1800)]

BASE = "docker.io/library/debian:bookworm-slim"
IMAGE = "localhost/penstock-tested"
VERSION = "org.opencontainers.image.version"
PASSWORD = "s3cr3t"
SECONDS = 300.0
HARDENED = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--shm-size=256m", "--memory=1g")
OUT_OF_PLACE = "command -v gcc || command -v pip || ls /opt/penstock/bin/pip"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    installed()
    with tempfile.TemporaryDirectory(prefix="image-") as directory:
        engine = Engine(Path(directory))
        engine.make_base(BASE)
        engine.build(IMAGE, ROOT / "deploy" / "container" / "Containerfile", ROOT, {VERSION: __version__})
        yield engine


class Container:
    """A container of the image, on the network of this machine, with its data in a volume."""

    def __init__(self, engine: Engine, name: str, volume: str, *options: str) -> None:
        self.engine, self.name, self.port = engine, name, free_port()
        variables = {
            "PENSTOCK_HOST": "127.0.0.1", "PENSTOCK_PORT": str(self.port), "PENSTOCK_HTTP__HOST": "127.0.0.1",
            "PENSTOCK_HTTP__PORT": "0", "PENSTOCK_HTTP__METRICS_PORT": "0",
        }  # fmt: skip
        given = [f"--env={key}={value}" for key, value in variables.items()]
        volumes = [f"--volume={volume}:/var/lib/penstock"]
        engine.output(
            "podman", "run", "--detach", "--name", name, "--network=host", *HARDENED, *volumes, *given, *options, IMAGE
        )

    def __enter__(self) -> Container:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.output("podman", "rm", "--force", "--time", "0", self.name)

    def wait_ready(self) -> None:
        """Wait for the line on standard output that says so."""
        line = f"penstock ready amqp=127.0.0.1:{self.port} pid=1\n"
        wait_for(lambda: line in self.logs().stdout or self.has_ended(), SECONDS, interval=1)
        assert line in self.logs().stdout, self.logs().stderr

    def has_ended(self) -> bool:
        return self.state()["Status"] == "exited"

    def logs(self) -> subprocess.CompletedProcess[str]:
        """Return standard output and standard error so far, each by itself."""
        return self.engine.run("podman", "logs", self.name)

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.engine.output("podman", "inspect", self.name))[0]["State"]
        return found

    def execute(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the container."""
        return self.engine.run("podman", "exec", self.name, *command)

    def connect(self, user: str, password: str) -> pika.BlockingConnection:
        credentials = pika.PlainCredentials(user, password)
        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port, "/", credentials))


def test_the_image_says_what_it_is(engine: Engine) -> None:
    config = json.loads(engine.output("podman", "image", "inspect", IMAGE))[0]["Config"]
    assert config["User"] == "5672:5672" and config["StopSignal"] == "SIGTERM"
    assert set(config["Volumes"]) == {"/var/lib/penstock"}
    assert set(config["ExposedPorts"]) == {"5672/tcp", "15672/tcp", "15692/tcp"}
    assert config["Labels"][VERSION] == __version__
    size = int(engine.output("podman", "image", "inspect", "--format", "{{.Size}}", IMAGE))
    assert 100e6 < size < 500e6, "what docs/containers.md says of its size is no longer true"


def test_a_container_serves_is_healthy_stops_and_is_replaced(engine: Engine, tmp_path: Path) -> None:
    password = tmp_path / "admin_password"
    password.write_text(f"{PASSWORD}\n")
    tmp_path.chmod(0o755)
    volume = f"penstock-{free_port()}"
    first = (
        f"--volume={password}:/etc/penstock/admin_password:ro",
        "--env=PENSTOCK_FIRST_USER__NAME=admin",
        "--env=PENSTOCK_FIRST_USER__PASSWORD_FILE=/etc/penstock/admin_password",
    )
    try:
        with Container(engine, f"{volume}-1", volume, *first) as container:
            container.wait_ready()
            uses(container)
            is_confined(container)
            stops_in_order(container)
        with Container(engine, f"{volume}-2", volume) as container:
            container.wait_ready()
            with container.connect("admin", PASSWORD) as connection:
                assert connection.channel().basic_get("kept", auto_ack=True)[2] == b"two"
            stops_in_order(container)
    finally:
        engine.run("podman", "volume", "rm", volume)


def uses(container: Container) -> None:
    """Publish and get from outside, as the first user; guest is not there."""
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        container.connect("guest", "guest")
    with container.connect("admin", PASSWORD) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("kept", durable=True)
        for body in (b"one", b"two"):
            channel.basic_publish("", "kept", body, pika.BasicProperties(delivery_mode=2), mandatory=True)
        assert channel.basic_get("kept", auto_ack=True)[2] == b"one"
    assert container.engine.run("podman", "healthcheck", "run", container.name).returncode == 0
    health = container.execute("penstock", "health", "--json")
    assert health.returncode == 0 and all(check["passed"] for check in json.loads(health.stdout)), health.stdout


def is_confined(container: Container) -> None:
    """Its root file system is read-only and has no compiler; no process of the node is root's; logs are JSON."""
    assert "Read-only file system" in container.execute("touch", "/opt/penstock/new").stderr
    assert container.execute("sh", "-c", OUT_OF_PLACE).stdout == ""
    users = container.execute("sh", "-c", "stat -c %u /proc/[0-9]*").stdout.split()
    assert len(users) > 5 and set(users) == {"5672"}
    lines = container.logs().stderr.splitlines()
    assert lines and all(json.loads(line)["level"] for line in lines)


def stops_in_order(container: Container) -> None:
    """Stop it with the image's signal, and expect the exit status of a node that has stopped in order."""
    container.engine.output("podman", "stop", "--time", "120", container.name)
    assert container.state()["ExitCode"] == 0, container.logs().stderr
