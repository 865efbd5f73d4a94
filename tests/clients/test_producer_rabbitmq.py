"""The tests of `penstock.client`, with Debian's RabbitMQ."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients import test_producer
from tests.differential import rabbitmq
from tests.raw import Address

pytestmark = [pytest.mark.broker, pytest.mark.slow]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    with rabbitmq.serve(tmp_path_factory.mktemp("rabbitmq")) as address:
        yield address


class TestRabbitMQ(test_producer.TestProducer):
    """The same tests; here `url` and `channel` lead to RabbitMQ."""
