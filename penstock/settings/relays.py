"""The settings of relays that a node runs (RabbitMQ: shovels).

Passwords are in files only: settings are shown, logged and audited.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

SHORT_MOST = 255
"""Bytes of a name in AMQP (4.2.5.3)."""
RELAYS_MOST = 100
"""Relays of a node: each takes two connections, and all run in one process."""
FILE = "@"
"""An address that begins with it names a file that contains the URL."""


def _short(text: str) -> str:
    if len(text.encode("utf-8", "surrogateescape")) > SHORT_MOST:
        raise ValueError(f"is longer than {SHORT_MOST} bytes")
    return text


def _address(address: str) -> str:
    """Check an address, and make the path of a file absolute. The errors quote nothing: it may have a password."""
    if not address:
        return address
    if address.startswith(FILE):
        if address == FILE:
            raise ValueError("names no file after the @")
        return FILE + str(Path(address[len(FILE) :]).expanduser().absolute())
    if not address.startswith(("amqp://", "amqps://")):
        raise ValueError("an AMQP URL begins with amqp:// or amqps://, and a file that contains it with @")
    if "@" in address:  # wherever a password has a slash
        raise ValueError("a URL with a user and a password belongs in a file: write @FILE")
    try:
        url = urlsplit(address)
        host, _ = url.hostname, url.port
    except ValueError:
        raise ValueError("is no AMQP URL") from None
    if not host:
        raise ValueError("the URL names no host")
    return address


Short = Annotated[str, AfterValidator(_short)]
Address = Annotated[str, AfterValidator(_address)]


class RelaySettings(BaseModel):
    """[Relays that the node runs](messages.md#relays-that-a-node-runs), each with a NAME. They change while it runs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Address = Field(
        default="",
        description="broker to consume from: `@FILE` that contains `amqp://USER:PASSWORD@HOST:PORT/VHOST`, or "
        "`amqp://HOST:PORT/VHOST` as guest; without either, this node as guest",
        json_schema_extra={"default_text": "this node"},
    )
    queue: Short = Field(
        min_length=1,
        description="queue of the source to consume from",
        json_schema_extra={"default_text": "none, required"},
    )
    target: Address = Field(
        default="",
        description="broker to publish to, written like the source",
        json_schema_extra={"default_text": "this node"},
    )
    target_queue: Short | None = Field(
        default=None,
        min_length=1,
        description="queue of the target that gets the messages; excludes target_exchange",
        json_schema_extra={"default_text": "none"},
    )
    target_exchange: Short | None = Field(
        default=None,
        min_length=1,
        description="exchange of the target that gets the messages; with neither it is the exchange to which each "
        "message was published",
        json_schema_extra={"default_text": "that of each message"},
    )
    routing_key: Short | None = Field(
        default=None,
        description="routing key to publish with, if not to a target_queue",
        json_schema_extra={"default_text": "that of each message"},
    )
    vhost: Short = Field(default="/", min_length=1, description="vhost of those sides that are this node")
    prefetch: int = Field(
        default=250, ge=1, le=65535, description="messages that the relay may have unacked, and thereby in memory"
    )
    rate: float = Field(
        default=0.0, ge=0, allow_inf_nan=False, description="messages per second at most; 0 is no limit"
    )

    @model_validator(mode="after")
    def _has_one_way(self) -> Self:
        if self.target_queue is not None and self.target_exchange is not None:
            raise ValueError("target_queue and target_exchange exclude each other")
        if self.target_queue is not None and self.routing_key is not None:
            raise ValueError("target_queue takes no routing_key: the queue's name is the routing key")
        return self

    @model_validator(mode="after")
    def _leads_elsewhere(self) -> Self:
        if self.source == self.target and self.comes_back:
            raise ValueError("source and target are the same queue")
        return self

    @property
    def comes_back(self) -> bool:
        """Whether its messages are published to their own queue again, if source and target are the same vhost."""
        if self.target_exchange is not None:
            return False
        return self.target_queue in (None, self.queue) and self.routing_key is None
