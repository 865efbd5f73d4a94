"""`penstock support`: the parts of the archive, with a node and without, and the secrets that it leaves out."""

from __future__ import annotations

import json
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ops.support import HIDDEN, parts, without_secrets
from penstock.settings.sources import read_configuration
from tests.broker import Broker
from tests.raw import Client

SECRET = "planted-password-of-a-user"
BODY = b"planted-body-of-a-message"
OF_A_NODE = {"status.json", "health.json", "metrics.txt", "processes.json"}
ALWAYS = {"versions.json", "settings.json", "doctor.json", "files.txt", "incidents.json", "events.json"}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("amqp://ann:secret@host/v", f"amqp://{HIDDEN}@host/v"),
        ("http://host/a@b", "http://host/a@b"),
        ({"auth": {"client_secret": "x", "none_secret": ""}}, {"auth": {"client_secret": HIDDEN, "none_secret": ""}}),
        ([{"setting": "a.password", "value": "x"}], [{"setting": "a.password", "value": HIDDEN}]),
        ([{"setting": "a.port", "value": 5672}], [{"setting": "a.port", "value": 5672}]),
        (("https://u:p@one, https://two",), [f"https://{HIDDEN}@one, https://two"]),
    ],
)
def test_secrets_are_hidden(value: Any, shown: Any) -> None:
    assert without_secrets(value) == shown


def test_without_a_node_the_rest_is_there(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "some.file").write_bytes(b"12345")
    configuration = read_configuration(None, {"data": tmp_path}, ["traces.endpoint=http://ann:secret@host:4318/"])
    found = dict(parts(tmp_path, configuration))
    assert {*found} == ALWAYS | {f"{name}.missing" for name in OF_A_NODE}
    assert b"no node runs" in found["status.json.missing"]
    assert found["files.txt"].split()[-1] == b"shards/some.file"
    assert b"secret" not in found["settings.json"]
    assert {"penstock", "python", "packages"} <= json.loads(found["versions.json"]).keys()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path, "traces.endpoint=http://ann:secret@127.0.0.1:9/") as node:
        yield node


@pytest.mark.broker
def test_the_archive_of_a_node(tmp_path: Path, node: Broker) -> None:
    assert node.penstock("user", "add", "ann", given=f"{SECRET}\n").returncode == 0
    with Client.connect(node.address) as client:
        channel = client.channel()
        channel.call("queue.declare", queue="orders", durable=True)
        channel.publish(BODY, "orders", delivery_mode=2)
    file = tmp_path / "archive.tar.gz"
    done = node.penstock("support", "--file", str(file))
    assert done.returncode == 0, done.stderr
    assert "look at it before you send it" in done.stdout
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with tarfile.open(file) as archive:
        found = {}
        for entry in archive.getmembers():
            opened = archive.extractfile(entry)
            assert opened is not None
            found[Path(entry.name).name] = opened.read()
    assert {*found} == ALWAYS | OF_A_NODE
    assert b"orders" in found["status.json"] and b"penstock_" in found["metrics.txt"]
    assert {each["name"] for each in json.loads(found["processes.json"])} >= {"pstk-router-0", "pstk-shard-0"}
    assert all(each["passed"] for each in json.loads(found["health.json"]))
    everything = b"".join(found.values())
    assert SECRET.encode() not in everything and BODY not in everything and b"ann:secret" not in everything
    again = node.penstock("support", "--file", str(file))
    assert (again.returncode, "File exists" in again.stderr) == (2, True)
