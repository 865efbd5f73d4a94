"""Names of reply consumers: direct reply-to (RabbitMQ's extension).

A consumer of `amq.rabbitmq.reply-to` gets a name of its own, `amq.rabbitmq.reply-to.ACCEPTOR.INCARNATION.SECRET`, which
is written into its requests. Answers are published to that name through the default exchange. There is no queue: a
shard passes answers on to the acceptor in the name. The name also determines the shard, so answers keep their order as
long as the shards of the node stay the same.
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
    """The incarnation of an acceptor that a reply consumer is connected to."""

    acceptor: int
    incarnation: int


def new_name(acceptor: int, incarnation: int) -> str:
    """A new, unguessable name of a reply consumer."""
    secret = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode()
    return f"{PSEUDO_QUEUE}.{acceptor}.{incarnation}.{secret}"


def home_of(name: str) -> Home | None:
    """The home of a reply consumer; None if the name is not that of one."""
    found = _NAME.fullmatch(name) if name.startswith(PSEUDO_QUEUE) else None
    return Home(int(found[1]), int(found[2])) if found else None


def carrier(name: str, shards: Sequence[int]) -> int:
    """The shard that passes on answers to a name, by rendezvous hashing: it changes only if that shard leaves, or a new
    one has a higher score.
    """
    return max(shards, key=lambda shard: (crc32(f"{shard}.{name}".encode()), shard))
