"""The first user of a node, with a password from a file: it takes the place of guest, and gets a new password with the
next start.
"""

from __future__ import annotations

from pathlib import Path

import pika
import pika.exceptions
import pytest

from tests.broker import Broker

pytestmark = pytest.mark.broker


def log_in(broker: Broker, user: str, password: str) -> None:
    """Connect, declare a queue, and hang up."""
    address = broker.address
    credentials = pika.PlainCredentials(user, password)
    with pika.BlockingConnection(pika.ConnectionParameters(*address, credentials=credentials)) as connection:
        connection.channel().queue_declare("work", durable=True)


def test_the_first_user_takes_the_place_of_guest(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("first\n")
    with Broker(tmp_path, "first_user.name=app", f"first_user.password_file={file}") as broker:
        assert [user["name"] for user in broker.call("user_list")] == ["app"]
        log_in(broker, "app", "first")
        broker.stop()
        file.write_text("second\n")
        broker.start()
        assert [user["name"] for user in broker.call("user_list")] == ["app"]
        log_in(broker, "app", "second")
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            log_in(broker, "app", "first")
