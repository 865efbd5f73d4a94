"""Random programs of methods sent to penstock and to Debian's RabbitMQ: the answers agree.

Each step is sent to both; then both get time until their answers and the states of their queues agree. Intended
differences are in `differences.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from itertools import count
from urllib.parse import urlsplit

import pytest
from hypothesis import given

from tests.broker import Broker
from tests.differential import rabbitmq
from tests.differential.comparison import Compared, compare, examples
from tests.differential.programs import CONNECTIONS, ONE_DESTINATION, PROGRAMS, Step
from tests.raw import Address, Client

pytestmark = [pytest.mark.broker, pytest.mark.slow]

EXAMPLES = 400
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


@examples(EXAMPLES)
@given(program=PROGRAMS)
@pytest.mark.timeout(3600)
def test_a_program_is_answered_as_by_rabbitmq(brokers: tuple[Address, Address], program: list[Step]) -> None:
    both = [Compared(partial(Client.connect, address)) for address in brokers]
    compare(both, CONNECTIONS, program, f"d{os.getpid()}-{next(RUNS)}-")


@pytest.mark.timeout(600)
def test_consistent_hash_exchanges_are_answered_as_by_rabbitmq(brokers: tuple[Address, Address]) -> None:
    both = [Compared(partial(Client.connect, address)) for address in brokers]
    compare(both, CONNECTIONS, ONE_DESTINATION, f"d{os.getpid()}-{next(RUNS)}-")
