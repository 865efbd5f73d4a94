"""An operator's day: forty tasks on a node under load, each done by one command, on a terminal of 80 columns and in a
pipe. What changes something is done once, on the terminal.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

import pytest

from tests.broker import Broker
from tests.broker.process import ROOT
from tests.waiting import wait_for

pytestmark = pytest.mark.broker

COLUMNS = 80
STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""What a terminal takes as a style, or a move of its cursor."""
WORK = """
import sys, time, pika
name, url = sys.argv[1:]
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
if name == "fill":
    channel.confirm_delivery()
    while True:
        channel.basic_publish("", "orders", b"order", pika.BasicProperties(content_type="text/plain"))
channel.basic_qos(prefetch_count=10)
channel.basic_publish("events", "mail.new", b"mail")
for method, _, body in channel.consume("mails", inactivity_timeout=1):
    channel.basic_publish("events", "mail.new", b"mail")
    time.sleep(0.01)
    if method is not None:
        channel.basic_ack(method.delivery_tag)
"""


class Task(NamedTuple):
    """What an operator wants, the command, and a pattern that its output has. `given` is typed in. `{held}` and
    `{busy}` are the ids of two connections, `{dir}` is a directory.
    """

    wanted: str
    command: str
    pattern: str
    given: str = ""


READING = (
    Task("does the node serve", "ping", r"^serving on 127\.0\.0\.1:\d+$"),
    Task("is it well", "health", r"ok +processes +6 ready"),
    Task("what runs, and what holds", "status", r"orders.*\n"),
    Task("the fullest queue first", "status --sort ready", r"orders(.|\n)*mails"),
    Task("which queues hold producers", "status --where saturated=yes", r"orders"),
    Task("who is held, and by what", "flow", r"queue 'orders'"),
    Task("why does a producer wait", "flow why {held}", r"it has no consumers"),
    Task("what limits a queue, and from where", "flow explain orders --vhost shop", r"x-max-length"),
    Task("what has happened to queues", "flow events", r"stop +│ shop +│ orders"),
    Task("past stops and deadlocks", "flow incidents", r"\w"),
    Task("for how long producers were held", "flow ledger", r"orders"),
    Task("who is connected", "connection list", r"ann"),
    Task("connections of one user", "connection list --user bob", r"bob"),
    Task("who has most unacked", "connection list --sort unacked", r"bob"),
    Task("which channels use confirms", "channel list --where mode=confirm", r"confirm"),
    Task("who consumes from a queue", "consumer list --queue mails", r"mails"),
    Task("what is at the head of a queue", "queue get orders --vhost shop --count 1", r"content_type: text/plain"),
    Task("on which shards queues are", "queue list --vhost shop", r"orders"),
    Task("the queues of one shard", "queue list --where shard=0", r"orders|mails|no queues|shard"),
    Task("where publishes go", "binding list --vhost shop", r"mail\.#"),
    Task("which exchanges there are", "exchange list --vhost shop", r"events"),
    Task("which vhosts there are", "vhost list", r"shop"),
    Task("who may do what", "permission list --vhost shop", r"ann"),
    Task("which users there are", "user list", r"bob"),
    Task("whose passwords are guessed", "user guesses", r"user"),
    Task("which limits are set", "vhost list-limits", r"max-queues"),
    Task("which policies there are", "policy list", r"name"),
    Task("what the node is configured with", "config show", r"amqp\.heartbeat"),
    Task("are the stores whole", "store check", r"\w"),
)

CHANGING = (
    Task("another vhost", "vhost add test", r"vhost 'test' added"),
    Task("another user", "user add eve", r"user 'eve' added", "secret\nsecret\n"),
    Task("let a user in", "permission set eve ^eve ^eve ^eve --vhost test", r"permissions of user 'eve'"),
    Task("another password", "user password eve", r"password of user 'eve' set", "other\nother\n"),
    Task("a tag", "user tag eve monitoring", r"tags of user 'eve' set"),
    Task(
        "bound what a user may open", """user set-limits eve '{{"max-connections": 5}}'""", r"limits of user 'eve' set"
    ),
    Task("a queue by hand", "queue declare eve.q --vhost test", r"queue 'eve\.q' declared"),
    Task(
        "lower the limit of queues", """policy set low ^eve '{{"max-length": 9}}' --vhost test""", r"policy 'low' added"
    ),
    Task("which policy governs a queue", "policy explain eve.q --vhost test", r"policy: low"),
    Task("undo that", "policy delete low --vhost test", r"policy 'low' deleted"),
    Task("empty a queue", "queue purge eve.q --vhost test", r"0 messages dropped"),
    Task("stop producers by hand", "flow stop --queue mails --vhost shop", r"\w"),
    Task("which stops there are", "flow stops", r"mails"),
    Task("let them go", "flow start --queue mails --vhost shop", r"\w"),
    Task("move a queue", "queue move shop mails {shard}", r"lives on shard \d"),
    Task("back up everything", "store backup {dir}/backup", r"\w"),
    Task("take topology and users along", "definitions export {dir}/definitions.json", r"^$"),
    Task("bring them in", "definitions import {dir}/definitions.json", r"imported 3 vhosts, 4 users"),
    Task("a queue for messages that failed", "queue declare failed", r"queue 'failed' declared"),
    Task("a queue to try them again", "queue declare retried", r"queue 'retried' declared"),
    Task("try failed messages again", "message move failed retried", r"0 messages moved to queue 'retried'"),
    Task("send dead letters back", "message redrive failed --rate 10", r"0 messages redriven"),
    Task("end one connection", "connection close {busy}", r"1 connection closed"),
    Task("a queue that is not wanted", "queue delete eve.q --vhost test", r"queue 'eve\.q' deleted"),
    Task("a user who is not wanted", "user delete eve", r"user 'eve' deleted"),
    Task("a vhost that is not wanted", "vhost delete test", r"vhost 'test' deleted"),
    Task("new processes for clients", "restart acceptors", r"\w"),
)


class Operator:
    """Someone at a node under load: one program is held by a full queue, another publishes and consumes."""

    def __init__(self, directory: Path, broker: Broker) -> None:
        self.directory, self.broker = directory, broker
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "COLUMNS"))}
        self.environment = {**clean, "PENSTOCK_DATA": str(broker.directory / "data"), "TERM": "xterm", "NO_COLOR": "1"}
        for command, given in (
            ("vhost add shop", ""), ("user add ann", "a\n"), ("user add bob", "b\n"),
            ("permission set ann .* .* .* --vhost shop", ""), ("permission set bob .* .* .* --vhost shop", ""),
            ("""queue declare orders --vhost shop --arguments '{"x-max-length": 500, "x-overflow": "flow"}'""", ""),
            ("queue declare mails --vhost shop", ""),
            ("""vhost set-limits shop '{"max-queues": 50}'""", ""),
            (f"definitions import {self._bindings()}", ""),
        ):  # fmt: skip
            self.in_a_pipe(command, given)
        address = f"{broker.address.host}:{broker.address.port}/shop"
        self.programs = [
            subprocess.Popen([sys.executable, "-c", WORK, name, f"amqp://{login}@{address}"], stderr=subprocess.DEVNULL)
            for name, login in (("fill", "ann:a"), ("work", "bob:b"))
        ]
        self.names = {"dir": str(directory), "held": self._held(), "busy": self._busy(), "shard": self._other_shard()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for program in self.programs:
            program.kill()
            program.wait()

    def in_a_pipe(self, command: str, given: str = "") -> str:
        """Run a command, and return what it prints. AssertionError if it fails."""
        done = subprocess.run(
            [sys.executable, "-m", "ops", *shlex.split(command)], cwd=ROOT, env=self.environment, input=given,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def on_a_terminal(self, command: str, given: str = "") -> str:
        """Run a command on a terminal, and return what it shows. AssertionError if it fails, or a table is too wide."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        process = subprocess.Popen(
            [sys.executable, "-m", "ops", *shlex.split(command)], cwd=ROOT, env=self.environment, stdin=theirs,
            stdout=theirs, stderr=theirs, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        shown = _talk(ours, given.splitlines())
        assert process.wait() == 0, f"{command}: {shown}"
        for line in shown.split("\n"):
            assert len(line) <= COLUMNS or not set(line) & set("│┃"), f"{command}: {line}"
        return shown

    def _bindings(self) -> Path:
        file = self.directory / "bindings.json"
        file.write_text(
            json.dumps(
                {
                    "exchanges": [{"name": "events", "type": "topic", "vhost": "shop"}],
                    "bindings": [
                        {"source": "events", "destination": "mails", "routing_key": "mail.#", "vhost": "shop"}
                    ],
                }
            )
        )
        return file

    def _held(self) -> str:
        held = wait_for(self.broker.held, what="a held producer")
        return str(held[0]["connection"])

    def _busy(self) -> str:
        def found() -> str | None:
            connections = json.loads(self.in_a_pipe("connection list --user bob --json"))
            return next((each["connection"] for each in connections if each["consumers"]), None)

        return wait_for(found, what="a consumer")

    def _other_shard(self) -> str:
        (mails,) = json.loads(self.in_a_pipe("queue list --where name=mails --json"))
        return str(1 - mails["shard"])


def _talk(terminal: int, answers: list[str]) -> str:
    """Answer the questions of a process, and return all that it shows until it has ended."""
    data = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # EIO: nobody has it open any more
            break
        data += part
        if answers and data.endswith(b": "):
            os.write(terminal, answers.pop(0).encode() + b"\n")
    os.close(terminal)
    assert not answers, data
    lines = (line.rpartition("\r")[2] for line in data.decode().replace("\r\n", "\n").split("\n"))
    return "\n".join(STYLE.sub("", line) for line in lines)


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    directory = tmp_path_factory.mktemp("day")
    with Broker(directory, shards=2) as broker, Operator(directory, broker) as operator:
        yield operator


@pytest.mark.xdist_group("operators_day")
@pytest.mark.parametrize("task", READING, ids=lambda task: task.wanted)
def test_reading(operator: Operator, task: Task) -> None:
    command = task.command.format(**operator.names)
    for shown in (operator.in_a_pipe(command), operator.on_a_terminal(command)):
        assert re.search(task.pattern, shown, re.MULTILINE), f"{command}:\n{shown}"


@pytest.mark.xdist_group("operators_day")
def test_changing(operator: Operator) -> None:
    """One after the other, as they build on each other."""
    for task in CHANGING:
        command = task.command.format(**operator.names)
        shown = operator.on_a_terminal(command, task.given)
        assert re.search(task.pattern, shown, re.MULTILINE), f"{command}:\n{shown}"


def test_they_are_forty() -> None:
    assert len(READING) + len(CHANGING) >= 40
