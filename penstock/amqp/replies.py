"""Direct reply-to (RabbitMQ's extension): what names of reply consumers say.

Who consumes from `amq.rabbitmq.reply-to` gets a name of its own, `amq.rabbitmq.reply-to.ACCEPTOR.LIFE.SECRET`, that is
written into the requests. Answers are published to it through the default exchange. No queue is behind it: a shard
passes them on to the acceptor that the name says. Which one carries a name goes by the name, so answers keep their
order as long as the shards of the node stay the same.
"""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

PSEUDO_QUEUE = "amq.rabbitmq.reply-to"

_NAME = re.compile(re.escape(PSEUDO_QUEUE) + r"\.([0-9]{1,9})\.([0-9]{1,9})\.[A-Za-z0-9_-]{22}==")


class Home(NamedTuple):
    """The life of an acceptor that a reply consumer is connected to."""

    acceptor: int
    incarnation: int


def new_name(acceptor: int, incarnation: int) -> str:
    secret = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode()
    return f"{PSEUDO_QUEUE}.{acceptor}.{incarnation}.{secret}"


def home_of(name: str) -> Home | None:
    """None if it is not the name of a reply consumer."""
    found = _NAME.fullmatch(name) if name.startswith(PSEUDO_QUEUE) else None
    return Home(int(found[1]), int(found[2])) if found else None


def carrier(name: str, shards: Sequence[int]) -> int:
    """Which of some shards passes on what is published to a name: another one where that is gone, or a new one has a
    higher score.
    """
    return max(shards, key=lambda shard: (crc32(f"{shard}.{name}".encode()), shard))
