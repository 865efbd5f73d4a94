"""A client in a storm of TLS handshakes."""

from __future__ import annotations

import json
import socket
import ssl
from pathlib import Path

import pytest

from load.handshakes import Sends, Storm, target_of
from load.target import Target
from tests import certificates
from tests.certificates import authority_file
from tests.load.test_tls import impostor, run, target
from tests.waiting import wait_for

__all__ = ["target"]


@pytest.mark.broker
def test_a_storm_beside_a_client(target: Target, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    course = ("--rate", "300", "--messages", "300", "--seconds", "0.5", "--runs", "1", "--json", str(report))
    where = ("--a", f"amqps://{target}", "--b", f"amqps://{target}", "--authority", str(authority_file()))
    done = run("handshakes", *where, *course)
    assert done.returncode == 0, done.stderr
    for found in json.loads(report.read_text()).values():
        assert found[0]["without"]["messages"] > 0 and found[0]["storm"]["messages"] > 0
        assert found[0]["storm"]["answered"] > 0
    assert [line.split()[:2] for line in done.stdout.splitlines()[1:]] == [
        ["A", "without"], ["A", "storm"], ["B", "without"], ["B", "storm"],
    ]  # fmt: skip


def test_a_storm_counts_those_who_are_hung_up_on() -> None:
    with impostor(certificates.client(), ssl.TLSVersion.TLSv1_2) as port:
        with Storm(Target("127.0.0.1", port, tls=True), 50) as storm:
            wait_for(lambda: storm.refused > 3)
        assert storm.answered == 0


def test_a_storm_gives_up_where_there_is_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=100) as silent:
        with Storm(Target("127.0.0.1", silent.getsockname()[1], tls=True), 20) as storm:
            wait_for(lambda: storm.given_up > 0)
        assert storm.answered == 0


@pytest.mark.parametrize(
    ("sends", "answered"), [(Sends.HALF, False), (Sends.NOTHING, False), (Sends.RANDOM, True), (Sends.PLAIN, True)]
)
def test_a_storm_of_another_kind(sends: Sends, answered: bool) -> None:
    """Those who have sent enough to be judged are hung up on; others wait, and give up."""
    with (
        impostor(certificates.client(), ssl.TLSVersion.TLSv1_3) as port,
        Storm(Target("127.0.0.1", port, tls=True), 20, sends) as storm,
    ):
        wait_for(lambda: storm.refused if answered else storm.given_up)


def test_a_storm_from_many_addresses() -> None:
    with (
        socket.create_server(("127.0.0.1", 0), backlog=100) as server,
        Storm(Target("127.0.0.1", server.getsockname()[1], tls=True), 200, addresses=3),
    ):
        found = [server.accept()[1][0] for _ in range(6)]
    assert found == 2 * ["127.0.0.1", "127.0.0.2", "127.0.0.3"]


@pytest.mark.parametrize("url", ["amqps://192.0.2.1", "amqps://localhost", "amqp://127.0.0.1", "amqps://[2001:db8::1]"])
def test_a_storm_is_for_this_machine_only(url: str) -> None:
    with pytest.raises(ValueError, match="this machine"):
        target_of(url, None)


def test_a_storm_at_nobody_is_one_line_and_exit_2() -> None:
    done = run("handshakes", "--a", "amqps://127.0.0.1:9")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and "127.0.0.1:9" in done.stderr
