"""Whether a node stays within its limits while one full queue holds many flat-out producers of five kinds.

    python -m load.held_producers                  # 200 for 10 minutes
    python -m load.held_producers --seconds 60 --producers 50

A broker is started for it, with limits for its memory and for parked publishes. A good client beside the producers
makes 40 round trips a second (publish, confirm, get). At the end the queue is drained. Exit status 1 if memory exceeded
`memory.process_limit`, if the good client reached less than 90 % of its rate, if a confirmed message is missing, or if
a producer's messages come out of order.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from load.frames import BASIC_CONSUME, BASIC_CONSUME_OK, consume, publish
from load.held_clients import STAMP, HeldClients, Record
from load.node import LocalNode
from load.probe import prepare
from load.processes import MIB, allow_open_files, memory, settled_memory
from load.target import Target
from load.wire import Wire

QUEUE, CONSUMED, GOOD = "held-full", "held-consumed", "held-good"
MARK = 1000
BODY = 4096
GOOD_RATE = 40.0
GOOD_SHARE = 0.9
POLL_SECONDS = 1.0
QUIET_SECONDS = 10.0
SPARE_FILES = 100
SETTINGS = {
    "memory.process_limit": "800 MiB",
    "memory_limit": "200 MiB",
    "flow.spool_limit": "256 MiB",
    "flow.parked_memory": "32 MiB",
}


def drain_queue(target: Target) -> dict[int, list[int]]:
    """Drain the queue until it stays silent; return the message numbers by producer, in order of delivery."""
    found: dict[int, list[int]] = {}
    wire = Wire(target)
    wire.call(BASIC_CONSUME, consume(QUEUE, False), BASIC_CONSUME_OK)
    wire.socket.settimeout(QUIET_SECONDS)
    data, at = bytearray(wire.received), 0
    while True:
        while len(data) - at >= 8:
            kind, size = data[at], int.from_bytes(data[at + 3 : at + 7], "big")
            if len(data) - at < size + 8:
                break
            if kind == 3:  # a body is in one frame
                producer, number = STAMP.unpack_from(data, at + 7)
                found.setdefault(producer, []).append(number)
            at += size + 8
        del data[:at]
        at = 0
        try:
            data += wire.socket.recv(1 << 20)
        except TimeoutError:
            wire.socket.close()
            return found


def judge(record: Record, found: dict[int, list[int]]) -> dict[str, int]:
    """Count confirmed messages that are missing, and producers whose messages came out of order."""
    missing = sum(len(numbers - set(found.get(each, ()))) for each, numbers in record.confirmed.items())
    confirmed = sum(map(len, record.confirmed.values()))
    wrong = sum(numbers != sorted(numbers) for numbers in found.values())
    return {"confirmed": confirmed, "delivered": sum(map(len, found.values())), "missing": missing, "disordered": wrong}


def run(node: LocalNode, producers: int, seconds: float) -> dict[str, Any]:
    """Run the measurement and return its figures, memory in MiB."""
    prepare(node.target, QUEUE, {"x-flow-stop-count": MARK})
    prepare(node.target, CONSUMED, {})
    with_work = Wire(node.target)
    with_work.socket.sendall(publish(CONSUMED, bytes(100), 10_000))
    idle = settled_memory(node.pid).nbytes
    target = node.target
    url = f"amqp://{target.user}:{target.password}@{target.host}:{target.port}"
    good = subprocess.Popen(
        [sys.executable, "-m", "load.good_client", url, GOOD, str(GOOD_RATE), str(seconds)], stdout=subprocess.PIPE
    )
    most, samples = idle, 0
    with HeldClients(target, producers, QUEUE, CONSUMED, BODY) as clients:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(POLL_SECONDS)
            now = memory(node.pid).nbytes
            most, samples = max(most, now), samples + 1
            if samples % 10 == 0:
                ends = sum(clients.record.ends.values())
                print(f"{samples * POLL_SECONDS:4.0f} s  {now / MIB:6.0f} MiB  {ends} connections ended", flush=True)
    said, _ = good.communicate(timeout=seconds + 60)
    record = clients.record
    return {
        "producers": producers,
        "seconds": seconds,
        "idle": idle // MIB,
        "most": most // MIB,
        "growth": (most - idle) // MIB,
        "written": record.written // MIB,
        "connections": record.connections,
        "ends": {f"{kind}: {reason}": count for (kind, reason), count in sorted(record.ends.items())},
        "good": json.loads(said or b"{}"),
        **judge(record, drain_queue(target)),
        "memory_at_the_end": settled_memory(node.pid).nbytes // MIB,
    }


def problems(report: dict[str, Any], limit: int) -> list[str]:
    """Describe what is wrong with the figures; `limit` is in MiB."""
    good = report["good"]
    return [
        *([f"memory: {report['most']} of {limit} MiB"] if report["most"] > limit else []),
        *(["the good client did not come through"] if good.get("done", 0) < GOOD_SHARE * good.get("wanted", 1) else []),
        *([f"{report['missing']} confirmed messages are missing"] if report["missing"] else []),
        *([f"{report['disordered']} producers' messages are out of order"] if report["disordered"] else []),
    ]


def main(
    producers: Annotated[int, typer.Option(min=1, help="number of producers, of all kinds in turn")] = 200,
    seconds: Annotated[float, typer.Option(min=1, help="how long they publish")] = 600.0,
    acceptors: Annotated[int, typer.Option(min=1, help="acceptors of the broker")] = 1,
) -> None:
    """Hold many flat-out producers at one full queue, with a good client beside them."""
    allow_open_files(producers + SPARE_FILES)
    options = [part for setting in SETTINGS.items() for part in ("--set", "=".join(setting))]
    with (
        tempfile.TemporaryDirectory(prefix="held-") as directory,
        LocalNode(Path(directory), "--acceptors", str(acceptors), "--shards", "1", *options) as node,
    ):
        report = run(node, producers, seconds)
    print(json.dumps(report, indent=2))
    wrong = problems(report, int(SETTINGS["memory.process_limit"].split()[0]))
    for problem in wrong:
        print(problem, file=sys.stderr)
    raise typer.Exit(bool(wrong))


if __name__ == "__main__":
    typer.run(main)
