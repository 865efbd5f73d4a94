from __future__ import annotations

import select
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from load.target import Target
from load.wire import Refused, Wire
from tests.broker import Broker
from tests.waiting import PATIENCE

pytestmark = pytest.mark.broker


def test_opens_and_closes(url: str) -> None:
    target = Target.parse(url)
    wires = [Wire(target, channels) for channels in (0, 1, 3)]
    for wire in wires:
        wire.close()
        assert wire.socket.fileno() == -1


def test_heartbeats_are_no_answers(tmp_path: Path) -> None:
    with Broker(tmp_path, "amqp.heartbeat=1") as broker:
        wire = Wire(Target(broker.address.host, broker.address.port))
        assert select.select([wire.socket], [], [], PATIENCE)[0]
        wire.close()


@pytest.mark.parametrize("wrong", [{"password": "no"}, {"vhost": "nowhere"}])
def test_a_refusal_is_an_error(url: str, wrong: dict[str, str]) -> None:
    target = Target.parse(url)
    with pytest.raises(ConnectionError):
        Wire(Target(target.host, target.port, **wrong))


def test_what_is_no_broker_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()

        def answer() -> None:
            peer, _ = server.accept()
            with peer:
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                peer.recv(64)

        with ThreadPoolExecutor(1) as unprivileged_reason:
            answered = unprivileged_reason.submit(answer)
            with pytest.raises(Refused, match="HTTP"):
                Wire(Target(host, port))
            answered.result()
