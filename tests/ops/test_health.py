"""`penstock health`: each check says what it found, and one that fails makes the exit status 1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ops.health import CHECKS, Check, lines
from ops.status import Status
from penstock.memory.gauges import READY, STARTING, STATE_NAMES
from tests.broker import Broker

NEAR = {"limit": "max-queues", "whose": "vhost", "name": "/", "used": 9, "number": 10}


def process(role: str, index: int, **facts: Any) -> dict[str, Any]:
    return {"role": role, "index": index, "state": STATE_NAMES[READY], "silent": 0.0, "work": "serving", **facts}


def checked(name: str, **facts: Any) -> tuple[bool, str]:
    node = {"amqp": "127.0.0.1:5672", "listeners": [], "http": []}
    usual: dict[str, Any] = {"node": node, "limits": [], "processes": [], "queues": []}
    return CHECKS[name](Status(**{**usual, **facts}))


def test_processes_are_to_be_ready_and_alive() -> None:
    good = [process("router", 0), process("shard", 0)]
    assert checked("processes", processes=good) == (True, "2 ready")
    starting = process("shard", 1, state=STATE_NAMES[STARTING])
    assert checked("processes", processes=[*good, starting]) == (False, "shard 1 is starting")
    silent = process("shard", 1, silent=5.0)
    assert checked("processes", processes=[silent]) == (False, "shard 1 has been silent for 5.0 s (serving)")


def test_no_shard_is_to_hold_all_its_producers() -> None:
    full = process("shard", 1, saturated=True, reason="its store is full")
    assert checked("shards", processes=[process("shard", 0, saturated=False, reason=None)])[0]
    assert checked("shards", processes=[full]) == (False, "shard 1: its store is full")


def test_no_limit_is_to_be_nearly_reached() -> None:
    assert checked("limits")[0]
    assert checked("limits", limits=[NEAR]) == (False, "max-queues of vhost /, 9 of 10")


def test_no_certificate_is_to_expire_soon_or_to_be_unreadable() -> None:
    def found(**left: int | None) -> tuple[bool, str]:
        served = [{"file": f"/{name}.pem", "seconds_left": seconds} for name, seconds in left.items()]
        return checked("certificates", node={"listeners": [{"certificates": served}], "http": []})

    assert found() == (True, "no listener has TLS")
    assert found(a=40 * 86400, b=31 * 86400) == (True, "2 valid for a while")
    assert found(a=40 * 86400, b=86400, c=-1, d=None) == (
        False, "/b.pem expires in 24 h; /c.pem has expired; /d.pem cannot be read"
    )  # fmt: skip


def test_a_port_is_to_greet_clients() -> None:
    proxied = {"address": "127.0.0.1:2", "proxied": True}
    assert checked("port", node={"listeners": [proxied]}) == (True, "not asked: all listeners are for proxies")
    inner = {"address": "127.0.0.1:1", "proxied": False, "tls": False}
    passed, text = checked("port", node={"listeners": [proxied, inner]})
    assert not passed and text.startswith("127.0.0.1:1 does not answer: ")


def test_each_check_is_a_line() -> None:
    found = [Check("port", True, "greets"), Check("limits", False, "near")]
    assert [*lines(found)] == ["ok      port         greets", "FAILED  limits       near"]


@pytest.mark.broker
def test_a_running_node_is_healthy_and_a_stopped_one_is_not(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        done = broker.penstock("health")
        assert done.returncode == 0
        assert [line.split()[:2] for line in done.stdout.splitlines()] == [["ok", name] for name in CHECKS]
        assert f"{broker.address.host}:{broker.address.port} greets clients" in done.stdout
        assert all(check["passed"] for check in json.loads(broker.penstock("health", "--json").stdout))
        broker.stop()
        done = broker.penstock("health")
        assert (done.returncode, done.stdout) == (1, "")
        broker.start()
