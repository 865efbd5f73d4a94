"""A node of stand-ins: the real supervisor, and children that behave as a test chooses.

    python -m tests.ops.stand_in serve SETTINGS_JSON        the supervisor
    python -m tests.ops.stand_in template RUNTIME DESCRIPTOR        the process that the others are forked from

`STAND_IN` in the environment is JSON, {role: behaviour}; a role that is not in it behaves well.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

import zmq

from ops import template
from ops.errors import StartError
from ops.serve import serve
from penstock.bus import pack
from penstock.memory.gauges import Gauges
from penstock.node import logs
from penstock.node.node import Node, Role
from penstock.process import process
from penstock.process.pulse import Pulse
from penstock.settings import Settings
from penstock.settings.sources import Configuration

COMMAND = [sys.executable, "-m", "tests.ops.stand_in"]


def supervise(settings: Settings) -> None:
    """Run the supervisor."""
    logs.configure(settings, "supervisor", 0)
    try:
        configuration = Configuration(settings, {})
        serve(configuration, lambda: configuration, template=[*COMMAND, "template"])
    except StartError as error:
        print(f"penstock: {error}", file=sys.stderr)
        sys.exit(2)


def behave(role: Role, runtime: Path, index: int, incarnation: int, *inherited: int) -> NoReturn:
    """Run a child of a role, with its behaviour."""
    behaviour = json.loads(os.environ.get("STAND_IN", "{}")).get(role, "well")
    process.enter(runtime, role, index)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if behaviour == "deaf" else lambda *_: sys.exit(0))
    node = Node.load(runtime)
    broken = {"broken": True, "broken at first": incarnation < 3, "broken later": incarnation > 1}
    if broken.get(behaviour, False):
        sys.exit(3)
    if behaviour == "refuses":
        process.refuse(runtime, role, index, "its store is\nof another kind")
    if behaviour == "raises":
        raise ValueError("a bug")
    listeners = [socket.socket(fileno=descriptor) for descriptor in inherited]
    for listener in listeners:
        listener.listen()
    with zmq.Context() as context, context.socket(zmq.PUSH) as reports:
        reports.connect(node.process_reports)
        if behaviour == "garbled":
            reports.send(b"\xc1")
            reports.send(pack(["ready", role, index, incarnation + 7, os.getpid()]))
        if behaviour != "silent":
            reports.send(pack(["ready", role, index, incarnation, os.getpid()]))
    if behaviour == "brief at first" and incarnation == 1:
        os._exit(0)
    if behaviour == "spins at first" and incarnation == 1:
        spin(Pulse(Gauges.open(node.gauges), role, index, incarnation))
    print("a child's standard output is not the node's", flush=True)
    for listener in listeners:
        with suppress(OSError):  # the node stops
            while True:
                listener.accept()[0].close()
    while True:
        signal.pause()


def spin(pulse: Pulse) -> NoReturn:
    """Keep the loop busy for ever, after one heartbeat."""
    pulse.serve()
    while True:
        pass


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        supervise(Settings.from_resolved(json.loads(sys.argv[2])))
    elif json.loads(os.environ.get("STAND_IN", "{}")).get("template") == "broken":
        sys.exit(3)
    else:
        mains = {role: template.Program(partial(behave, role)) for role in template.MODULES}
        template.serve(Path(sys.argv[2]), int(sys.argv[3]), mains)()
