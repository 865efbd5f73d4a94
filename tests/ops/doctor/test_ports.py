"""Checks of the ports."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from ops.doctor.finding import Finding, Level
from ops.doctor.ports import ports
from penstock.settings import Settings


def found(tmp_path: Path, in_use: bool = False, **settings: Any) -> dict[str, Finding]:
    given = {"port": 0, "http": {"port": 0, "metrics_port": 0}, **settings}
    return {each.check: each for each in ports(Settings(data=tmp_path, **given), in_use)}


def test_free_ports_of_this_machine(tmp_path: Path) -> None:
    each = found(tmp_path, listeners={"inner": {"port": 0}})
    assert [*each] == ["port amqp", "port inner", "port http", "port metrics"]
    assert {finding.level for finding in each.values()} == {Level.OK}


def test_no_port_without_http(tmp_path: Path) -> None:
    assert [*found(tmp_path, http={"enabled": False})] == ["port amqp"]


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        finding = found(tmp_path, port=port)["port amqp"]
        assert finding.level is Level.PROBLEM
        assert (f"127.0.0.1:{port}" in finding.text, f":{port}'" in finding.remedy) == (True, True)
        own = found(tmp_path, in_use=True, port=port)["port amqp"]
        assert (own.level, own.text) == (Level.OK, f"127.0.0.1:{port}, not tried while the node runs")


@pytest.mark.parametrize(("host", "level"), [("0.0.0.0", Level.ADVICE), ("::1", Level.OK), ("localhost", Level.OK)])
def test_what_others_can_reach_without_tls(tmp_path: Path, host: str, level: Level) -> None:
    assert found(tmp_path, host=host)["port amqp"].level is level
