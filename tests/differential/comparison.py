"""Steps done on two brokers, until their answers and the states of their queues agree."""

from __future__ import annotations

import pprint
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from hypothesis import HealthCheck, settings

from tests.differential.programs import EXCHANGES, KILL, MISSING, QUEUES, Step
from tests.differential.side import Connect, Side

AGREE_SECONDS = 30.0


def examples(most: int) -> settings:
    """Return settings with which the same examples are drawn each time."""
    return settings(max_examples=most, derandomize=True, database=None,
                    suppress_health_check=list(HealthCheck), report_multiple_bugs=False)  # fmt: skip


def is_unkillable(role: str, index: int) -> None:
    """Refuse to kill a process."""
    raise AssertionError(f"no program may kill {role} {index} of this broker")


@dataclass(frozen=True)
class Compared:
    """A broker to compare: `connect` returns a connection, `kill` returns once the killed process is replaced."""

    connect: Connect
    kill: Callable[[str, int], None] = is_unkillable


def compare(
    brokers: Sequence[Compared], connections: int, program: list[Step], prefix: str, seconds: float = AGREE_SECONDS
) -> None:
    """Send a program to two brokers, under names with that prefix. AssertionError with the first difference that lasts
    for so many seconds.
    """
    ours, theirs = (Side(broker.connect, connections, prefix) for broker in brokers)
    try:
        for number, step in enumerate(program):
            done = program[: number + 1]
            if step.name == KILL:
                for broker in brokers:
                    broker.kill(**step.arguments)
            else:
                act(ours, theirs, step, number)
            agree(ours, theirs, done, seconds)
    finally:
        for side in (ours, theirs):
            side.close()
        for broker, side in zip(brokers, (ours, theirs), strict=True):
            remover = Side(broker.connect, 0, prefix)
            remover.clean(side.declared, [*QUEUES, MISSING], EXCHANGES)
            remover.close()


def act(ours: Side, theirs: Side, step: Step, number: int) -> None:
    """Do a step on both sides, each with its own tag of the same delivery."""
    tags = (0, 0)
    if step.arguments.get("delivery_tag") == "outstanding":
        tags = outstanding(ours, theirs, step)
    for side, tag in zip((ours, theirs), tags, strict=True):
        arguments: dict[str, Any] = dict(step.arguments)
        if arguments.get("delivery_tag") == "outstanding":
            arguments["delivery_tag"] = tag
        if step.name == "basic.publish":
            arguments["body"] = b"m%d" % number
        if step.name.startswith("close"):
            side.reopen(step.at, whole=step.name == "close connection")
        else:
            side.act(step.at, step.name, arguments)
        if "delivery_tag" in arguments:
            side.settled(step.at, arguments["delivery_tag"], arguments.get("multiple", False))


def outstanding(ours: Side, theirs: Side, step: Step) -> tuple[int, int]:
    """Return both sides' tags of the same delivery; 0 if there is none, or if `multiple` is set and the sides' orders
    of deliveries differ.
    """
    mine, other = (side.outstanding[step.at] for side in (ours, theirs))
    orders = [sorted(tags, key=lambda each, tags=tags: tags[each]) for tags in (mine, other)]
    shared = [key for key in orders[0] if key in other]
    if not shared or (step.arguments.get("multiple") and orders[0] != orders[1]):
        return 0, 0
    chosen = shared[step.pick % len(shared)]
    return mine[chosen], other[chosen]


def agree(ours: Side, theirs: Side, done: list[Step], seconds: float) -> None:
    """Wait until answers and queues of both sides agree. AssertionError with the difference if they do not in time."""
    deadline = time.monotonic() + seconds
    while True:
        for side in (ours, theirs):
            side.receive()
        different = differences(ours, theirs)
        if not different:
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"{pprint.pformat(done)}\n(ours, theirs) = {pprint.pformat(different)}")
        time.sleep(0.005)


def differences(ours: Side, theirs: Side) -> dict[object, object]:
    """Return both sides' answers from the first difference on, by place and kind; if there is none, the states of
    queues that differ.
    """
    found: dict[object, object] = {}
    for where in ours.log.keys() | theirs.log.keys():
        said, expected = ours.log.get(where, []), theirs.log.get(where, [])
        if said != expected:
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(said, expected, strict=False)))
            found[where] = [(each[same:] if isinstance(each, list) else each) for each in (said, expected)]
    if not found:
        states = [side.state(QUEUES) for side in (ours, theirs)]
        if states[0] != states[1]:
            found["queues"] = states
    return found
