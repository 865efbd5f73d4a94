"""One flat-out producer of each kind at a full queue: what is kept for it is bounded, and its connection ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from load import held_producers
from load.confirms import ConfirmWindow
from load.frames import publish
from load.held_clients import KINDS, HeldClients, Record
from load.held_producers import CONSUMED, MARK, QUEUE, drain_queue, judge, problems
from load.hostile import Good
from load.node import gauges_file
from load.probe import prepare
from load.target import Target
from load.wire import Wire
from penstock.memory.gauges import Gauges
from tests.broker.process import Broker
from tests.waiting import wait_for

MIB = 1024 * 1024
HELD, SPOOL, MEMORY = MIB + MIB // 8, 16 * MIB, 4 * MIB
ROUND_SECONDS = 0.1
CLOSED = {"py-amqp", "php", "go", "consuming"}


def test_what_is_missing_and_what_is_out_of_order() -> None:
    record = Record(confirmed={1: {0, 1, 2}, 2: {0}, 3: set()})
    found = judge(record, {1: [0, 2, 1], 2: [], 3: [0]})
    assert found == {"confirmed": 4, "delivered": 4, "missing": 1, "disordered": 1}
    report = {"most": 100, "good": {"wanted": 10, "done": 9}, **found}
    assert problems(report, 100) == ["1 confirmed messages are missing", "1 producers' messages are out of order"]
    assert problems({"most": 101, "good": {"wanted": 10, "done": 8}, "missing": 0, "disordered": 0}, 100) == [
        "memory: 101 of 100 MiB", "the good client did not come through",
    ]  # fmt: skip


def test_confirms_settle_what_they_name() -> None:
    window = ConfirmWindow()
    for _ in range(5):
        window.publish()
    assert list(window.settle(3, True)) == [(1, 4)]


@pytest.mark.broker
@pytest.mark.long
def test_one_of_each_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_producers, "QUIET_SECONDS", 2.0)
    settings = (f"flow.held_bytes={HELD}", f"flow.spool_limit={SPOOL}", f"flow.parked_memory={MEMORY}")
    with Broker(tmp_path, *settings) as broker:
        target = Target(broker.address.host, broker.address.port)
        prepare(target, QUEUE, {"x-flow-stop-count": MARK})
        prepare(target, CONSUMED, {})
        work = Wire(target)
        work.socket.sendall(publish(CONSUMED, bytes(100), 2000))
        with Gauges.open(gauges_file(tmp_path / "data"), writable=False) as gauges:
            most = 0

            good, rounds = Good(target), 0

            def ended() -> bool:
                nonlocal most, rounds
                rounds += good.rounds(ROUND_SECONDS)
                most = max(most, gauges.counters_read("acceptor", 0).parked_bytes)
                return {kind for kind, reason in list(clients.record.ends) if reason == "closed with 506"} >= CLOSED

            with HeldClients(target, len(KINDS), QUEUE, CONSUMED, 4096) as clients:
                wait_for(ended, what="the last resort of all that cannot wait")
            assert rounds and not good.blocked
            good.wire.close()
            assert HELD < most < (SPOOL + MEMORY) * 5 // 8 + len(KINDS) * MIB
        assert all(reason.startswith(("closed with 506", "connected")) for _, reason in clients.record.ends)
        assert "java" not in {kind for kind, reason in clients.record.ends if not reason.startswith("connected")}
        report = judge(clients.record, drain_queue(target))
        assert report["missing"] == 0 == report["disordered"] and report["delivered"] > MARK
        assert '"event":"last resort"' in broker.log
