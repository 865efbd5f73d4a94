"""The transport of kombu; `tests/clients/test_celery_held.py` has it at a node."""

# kombu creates its names on first use, where a type checker cannot see them.
# mypy: disable-error-code="name-defined, attr-defined"

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import amqp
import kombu
import pytest

import penstock.client.kombu
from penstock.client.amqp_link import Unanswered
from penstock.client.kombu import Channel, SSLTransport, Transport
from tests.penstock.client.linked import SECONDS
from tests.penstock.client.peer import Listener


@pytest.fixture
def channel() -> Iterator[Channel]:
    """A channel of a broker that answers nothing more."""
    penstock.client.kombu.register()
    with Listener() as listener, ThreadPoolExecutor() as threads:
        url = listener.url.replace("amqp", "penstock", 1)
        opening = threads.submit(
            lambda: kombu.Connection(url, transport_options={"confirm_timeout": SECONDS}).default_channel
        )
        peer = listener.connection()
        peer.greet()
        peer.take("connection.open")
        peer.send("connection.open-ok")
        peer.take("channel.open")
        peer.send("channel.open-ok", 1)
        yield opening.result()


def test_urls() -> None:
    penstock.client.kombu.register()
    plain, secure = kombu.Connection("penstock://one"), kombu.Connection("penstocks://one;penstocks://two")
    assert type(plain.transport) is Transport and type(secure.transport) is SSLTransport
    assert plain.as_uri() == "penstock://guest:**@one:5672//"
    assert secure.transport.default_connection_params["port"] == 5671
    assert plain.transport.driver_type == "amqp", "by this Celery decides whether queues may be quorum queues"


def test_a_declaration_waits_for_a_limited_time(channel: Channel) -> None:
    with pytest.raises(Unanswered, match="no answer in time, connection closed"):
        channel.queue_declare("work")
    for call in (lambda: channel.queue_declare("work"), lambda: channel.basic_publish(amqp.Message(b""))):
        with pytest.raises(amqp.RecoverableConnectionError, match=r"connection (already )?closed"):
            call()


def test_transactions_are_refused(channel: Channel) -> None:
    with pytest.raises(NotImplementedError, match="no transactions over penstock://: use amqp://"):
        channel.tx_select()
