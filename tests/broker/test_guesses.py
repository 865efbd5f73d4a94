"""Guesses at passwords are refused while other clients log in."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import pytest

from acceptor.logins.guesses import FREE
from penstock.control import passwords
from tests.broker import Broker
from tests.frames import PROTOCOL_HEADER, method_frame
from tests.raw import Client, Closed
from tests.waiting import wait_for

pytestmark = pytest.mark.broker

SOCKETS = 700
HASH = passwords.hashed("secret")


def make_user(broker: Broker) -> str:
    user = f"u-{uuid4().hex[:8]}"
    broker.call("user_add", name=user, password_hash=HASH, tags=[])
    broker.call("permission_set", user=user, vhost="/", configure=".*", write=".*", read=".*")
    return user


def guess(broker: Broker, user: str, password: str) -> socket.socket:
    """Return a connection that has sent a login and does not wait for the answer."""
    connection = socket.create_connection(broker.address)
    response = b"\0" + user.encode() + b"\0" + password.encode()
    start_ok = method_frame(
        "connection.start-ok", client_properties={}, mechanism="PLAIN", response=response, locale="en_US"
    )
    connection.sendall(PROTOCOL_HEADER + start_ok)
    return connection


def refused(broker: Broker, user: str) -> list[dict[str, Any]]:
    found = broker.penstock("user", "guesses", "--json")
    assert found.returncode == 0, found.stderr
    return [each for each in json.loads(found.stdout) if each["user"] == user]


@pytest.fixture
def storm(broker: Broker) -> Iterator[Callable[[str], None]]:
    """A function that sends many wrong passwords for a user at once."""
    with ExitStack() as stack:

        def begin(user: str) -> None:
            for number in range(SOCKETS):
                stack.enter_context(guess(broker, user, f"guess {number}"))

        yield begin


def test_guesses_keep_nobody_out(broker: Broker, connect: Callable[..., Client], storm: Callable[[str], None]) -> None:
    guessed, known, *others = (make_user(broker) for _ in range(5))
    connect(user=known, password="secret")
    connect(user=guessed, password="secret")
    storm(guessed)
    for user in *others, known, guessed, *others:
        connect(user=user, password="secret")
    assert not any(refused(broker, user) for user in (known, *others))
    wait_for(lambda: '"passwords are guessed"' in broker.log)

    def guess_on() -> list[dict[str, Any]]:
        """Guess once more; return the user's pending refusals. Each guess is tried later, so one will show in time."""
        with guess(broker, guessed, uuid4().hex):
            return refused(broker, guessed)

    for each in wait_for(guess_on):
        assert each["address"] == "127.0.0.1" and each["wrong"] >= FREE


def test_a_new_password_lets_in_where_many_come_with_the_old_one(
    broker: Broker, connect: Callable[..., Client]
) -> None:
    user = make_user(broker)
    for _ in range(3):
        with pytest.raises(Closed):
            connect(user=user, password="old")
    connect(user=user, password="secret")
    assert not refused(broker, user)
