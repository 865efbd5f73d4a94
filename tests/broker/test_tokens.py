"""Tokens and an HTTP service decide on clients of a running node."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from tests.acceptor.logins import issuer as issuing
from tests.acceptor.logins import service as deciding
from tests.acceptor.logins.issuer import Issuer
from tests.acceptor.logins.service import Fields
from tests.broker import Broker
from tests.waiting import wait_for

pytestmark = pytest.mark.broker

PLANTED = "planted-password-for-the-service"


def connect(broker: Broker, password: str, user: str = "anyone", vhost: str = "/") -> pika.BlockingConnection:
    credentials = pika.PlainCredentials(user, password)
    host, port = broker.address
    return pika.BlockingConnection(pika.ConnectionParameters(host, port, vhost, credentials))


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing.serving(Issuer()) as issuer:
        yield issuer


@pytest.fixture(scope="module")
def broker(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Return a node that takes tokens, and its own users."""
    with Broker(tmp_path_factory.mktemp("tokens"), *issuer.assignments(), acceptors=2) as node:
        yield node


def test_a_token_lets_its_user_do_what_its_scopes_allow(broker: Broker, issuer: Issuer) -> None:
    scope = "penstock.configure:*/mine-* penstock.read:*/mine-* penstock.write:*/mine-* penstock.write:*/amq.default"
    with connect(broker, issuer.token(sub="ann", scope=scope)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("mine-1")
        channel.basic_publish("", "mine-1", b"x", pika.BasicProperties(user_id="ann"), mandatory=True)
        assert channel.basic_get("mine-1", auto_ack=True)[2] == b"x"
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            channel.queue_declare("yours")
        assert refused.value.reply_code == 403 and "for user 'ann'" in refused.value.reply_text
        assert "ann" in broker.penstock("connection", "list").stdout


def test_the_nodes_own_users_log_in_beside_tokens(broker: Broker) -> None:
    connect(broker, "guest", "guest").close()
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect(broker, "wrong", "guest")


def test_a_vhost_that_no_scope_names_is_shut(broker: Broker, issuer: Issuer) -> None:
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError):
        connect(broker, issuer.token(scope="penstock.read:other/*"))


def test_an_expired_or_forged_token_is_refused(broker: Broker, issuer: Issuer) -> None:
    token = issuer.token()
    for wrong in (issuer.token(seconds=-60), token[:-6] + "AAAAAA", "a.b.c"):
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            connect(broker, wrong)
    assert token[:-6] not in broker.log


def test_a_token_that_expires_ends_its_connection(broker: Broker, issuer: Issuer) -> None:
    connection = connect(broker, issuer.token(sub="brief", exp=int(time.time()) + 3))
    channel = connection.channel()
    channel.queue_declare("brief", exclusive=True)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        next(channel.consume("brief"))
    assert closed.value.reply_code == 320 and "token of user 'brief' has expired" in closed.value.reply_text


def test_a_new_token_keeps_the_connection_and_brings_other_rights(broker: Broker, issuer: Issuer) -> None:
    brief = int(time.time()) + 2
    with connect(broker, issuer.token(exp=brief, scope="penstock.read:*/* penstock.configure:*/*")) as connection:
        connection.update_secret(issuer.token(), "renewed")
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("renewed")
        channel.basic_publish("", "renewed", b"x", mandatory=True)
        # The time of the first token passes while this client waits for nothing.
        wait_for(lambda: time.time() > brief + 6)
        assert channel.basic_get("renewed", auto_ack=True)[2] == b"x"


def test_a_consumer_without_the_right_any_more_ends_with_its_channel(broker: Broker, issuer: Issuer) -> None:
    with connect(broker, issuer.token()) as connection:
        channel = connection.channel()
        channel.queue_declare("lost")
        channel.basic_consume("lost", lambda *_: None)
        connection.update_secret(issuer.token(scope="penstock.write:*/*"), "less")
        while channel.is_open:
            connection.process_data_events(None)
        assert "read access to queue 'lost' in vhost '/' refused for user 'bob'" in broker.log


def test_a_new_token_of_another_user_is_refused(broker: Broker, issuer: Issuer) -> None:
    connection = connect(broker, issuer.token())
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.update_secret(issuer.token(sub="eve"), "another")
    assert closed.value.reply_code == 530
    assert "New secret was refused by one of the backends" in closed.value.reply_text


def test_a_file_of_keys_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    settings = ["auth.backends=oauth2", "auth.oauth2.resource_server_id=x", f"auth.oauth2.keys={tmp_path / 'none'}"]
    with pytest.raises(AssertionError, match=r"auth\.oauth2\.keys"), Broker(tmp_path, *settings):
        pass


def test_an_http_service_decides(tmp_path: Path) -> None:
    def decide(path: str, fields: Fields) -> str:
        if path == "/user":
            return "allow" if fields["password"] == PLANTED else "deny"
        return "deny" if fields.get("name") == "yours" else "allow"

    with deciding.serving() as service:
        service.decide = decide
        with Broker(tmp_path, *service.assignments()) as broker:
            with connect(broker, PLANTED, "ann") as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                channel.queue_declare("mine")
                channel.basic_publish("", "mine", b"x", mandatory=True)
                with pytest.raises(pika.exceptions.ChannelClosedByBroker):
                    channel.queue_declare("yours")
            with pytest.raises(pika.exceptions.ProbableAuthenticationError):
                connect(broker, "wrong", "ann")
            service.status = 500
            with pytest.raises(pika.exceptions.ProbableAuthenticationError):
                connect(broker, PLANTED, "ann")
            assert "status 500" in broker.log and PLANTED not in broker.log
    assert {"username": "ann", "vhost": "/", "ip": "127.0.0.1", "tags": ""} in [fields for _, fields in service.asked]
