"""The section `limits` of the settings: how many connections, queues, bindings etc. a node, a vhost and a user may
have.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from penstock.settings.values import Bytes


def _limit(description: str) -> int:
    """A limit with -1 for none, as in RabbitMQ."""
    found: int = Field(default=-1, ge=-1, description=f"{description}; -1 is no limit")
    return found


class LimitSettings(BaseModel):
    """Commands can set other limits for a vhost or user (`penstock vhost set-limits`), except on unacked deliveries."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    connections: int = _limit("open connections of the node; administrators may have 8 more")
    channels: int = _limit("open channels of the node")
    address_connections: int = _limit("open connections from one address, or one IPv6 network of 64 bits")
    connection_rate: int = _limit(
        "connections that may be opened to the node per second, and at once; administrators may open more"
    )
    address_connection_rate: int = _limit(
        "connections that one address, or one IPv6 network of 64 bits, may open per second, and at once"
    )
    vhost_connections: int = _limit("open connections of a vhost")
    vhost_queues: int = _limit("queues of a vhost")
    vhost_exchanges: int = _limit("exchanges of a vhost, the predeclared ones among them")
    vhost_bindings: int = _limit("bindings in a vhost")
    user_connections: int = _limit("open connections of a user")
    user_channels: int = _limit("open channels of a user")
    user_unacked_messages: int = _limit(
        "unacked deliveries that consumers of a user may have before they wait; each shard enforces an equal part"
    )
    user_unacked_bytes: Bytes = _limit("the same in bytes of whole messages; the last one may exceed it")
    user_queues: int = Field(
        default=-1, ge=-1, description="queues that a user has declared; -1 is nine tenths of max_queues"
    )
    user_exchanges: int = _limit("exchanges that a user has declared")
    user_bindings: int = _limit("bindings that a user has made")
