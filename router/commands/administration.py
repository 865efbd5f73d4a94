"""The objects that commands work on, and the checks that several commands make."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from penstock.control.control import Refusal
from penstock.limits.watermarks import FlowDefaults
from penstock.node.clock import Clock
from penstock.settings.limits import LimitSettings
from router.authority.authority import Authority
from router.authority.ledger import Ledger
from router.authority.moving import Moves
from router.authority.rebalancing import Rebalancing

NAME_BYTES_MAX = 255
"""Names that clients send are short strings (AMQP 0-9-1, 4.2.5.3)."""
METADATA_BYTES_MAX = 4096


@dataclass(frozen=True, slots=True)
class Administration:
    """The objects that commands work on. The records of a long command pass `through` an iterator that shows the
    progress.
    """

    authority: Authority
    through: Callable[[list[Any]], Iterable[Any]] = iter
    rebalancing: Rebalancing = field(default_factory=Rebalancing)

    @property
    def ledger(self) -> Ledger:
        return self.authority.ledger

    @property
    def moves(self) -> Moves:
        return self.authority.moves

    @property
    def clock(self) -> Clock:
        return self.authority.clock

    @property
    def defaults(self) -> FlowDefaults:
        """The node's defaults of flow control."""
        return self.authority.defaults

    @property
    def limits(self) -> LimitSettings:
        """The node's default limits of vhosts and users."""
        return self.authority.bounds.limits


def check_name(kind: str, name: str) -> None:
    """Refuse a name that is empty, too long for clients to send, or has a line break or NUL in it."""
    if not name:
        raise Refusal("invalid", f"the {kind} name cannot be empty")
    nbytes = len(name.encode("utf-8", "surrogateescape"))
    if nbytes > NAME_BYTES_MAX:
        raise Refusal("invalid", f"{kind} name of {nbytes} bytes is longer than {NAME_BYTES_MAX}")
    if any(character in name for character in "\r\n\0"):
        raise Refusal("invalid", f"{kind} name {name!r} has a control character in it")


def check_metadata(description: str | None, tags: list[Any] | None) -> None:
    """Refuse a description or tags of a vhost that are too long, or of another type."""
    if not all(isinstance(tag, str) for tag in tags or ()):
        raise Refusal("invalid", "the tags of a vhost are texts")
    texts = [description or "", *(tags or ())]
    nbytes = sum(len(text.encode("utf-8", "surrogateescape")) for text in texts)
    if nbytes > METADATA_BYTES_MAX:
        raise Refusal("invalid", f"description and tags of {nbytes} bytes are longer than {METADATA_BYTES_MAX}")


def check_vhost(ledger: Ledger, name: str) -> None:
    """Refuse a vhost that does not exist."""
    if not ledger.topology.has_vhost(name):
        raise Refusal("not_found", f"there is no vhost '{name}'")


def check_user(ledger: Ledger, name: str) -> None:
    """Refuse a user that does not exist."""
    if ledger.topology.users.user(name) is None:
        raise Refusal("not_found", f"there is no user '{name}'")
