"""Random programs of methods sent to penstock and to Debian's RabbitMQ: the answers agree.

Each step is sent to both; then both get time until their answers and the states of their queues agree. Intended
differences are in `differences.py`.
"""

from __future__ import annotations

import os
import pprint
import time
from collections.abc import Iterator
from itertools import count, takewhile
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings

from tests.broker import Broker
from tests.differential import rabbitmq
from tests.differential.programs import CONNECTIONS, EXCHANGES, PROGRAMS, QUEUES, Step
from tests.differential.side import Side
from tests.raw import Address

pytestmark = [pytest.mark.broker, pytest.mark.slow]

EXAMPLES = 400
AGREE_SECONDS = 30.0
RUNS = count(1)


@pytest.fixture(scope="session")
def brokers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Address, Address]]:
    """The addresses of penstock and RabbitMQ; `--amqp-url` names a running broker to use as RabbitMQ."""
    url = request.config.getoption("--amqp-url")
    with Broker(tmp_path_factory.mktemp("penstock"), acceptors=2, shards=2) as ours:
        if url:
            parts = urlsplit(url)
            yield ours.address, Address(parts.hostname or "127.0.0.1", parts.port or 5672)
        else:
            with rabbitmq.serve(tmp_path_factory.mktemp("rabbitmq")) as theirs:
                yield ours.address, theirs


@settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)
@given(program=PROGRAMS)
@pytest.mark.timeout(3600)
def test_a_program_is_answered_as_by_rabbitmq(brokers: tuple[Address, Address], program: list[Step]) -> None:
    prefix = f"d{os.getpid()}-{next(RUNS)}-"
    ours, theirs = (Side(address, CONNECTIONS, prefix) for address in brokers)
    try:
        for number, step in enumerate(program):
            done = program[: number + 1]
            act(ours, theirs, step, number)
            agree(ours, theirs, done)
    finally:
        for side in (ours, theirs):
            side.close()
        for address in brokers:
            remover = Side(address, 0, prefix)
            remover.clean(QUEUES, EXCHANGES)
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


def agree(ours: Side, theirs: Side, done: list[Step]) -> None:
    """Wait until answers and queues of both sides agree. AssertionError with the difference if they never do."""
    deadline = time.monotonic() + AGREE_SECONDS
    while True:
        for side in (ours, theirs):
            side.receive()
        different = differences(ours, theirs)
        if not different:
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"{pprint.pformat(done)}\n(penstock, RabbitMQ) = {pprint.pformat(different)}")
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
