"""What can be commanded over the control socket: names, arguments, results.

    command         arguments     result
    vhost_add       name          whether it is new
    vhost_delete    name          None; its connections are closed, what is in it is gone
    vhost_list                    [{name, queues, exchanges}, …]

A refusal says why, in words for a person.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.control import Refusal
from penstock.logs import get_logger
from router import vhosts
from router.ledger import Ledger

log = get_logger()

Types = type | tuple[type, ...]
Command = tuple[Callable[..., Any], dict[str, Types]]

NAME_OCTETS_MAX = 255
"""Names that clients send are short strings (AMQP 0-9-1, 4.2.5.3)."""


@dataclass(frozen=True, slots=True)
class Administration:
    """What commands are carried out on."""

    ledger: Ledger


def check_name(kind: str, name: str) -> None:
    """Refusal of what cannot name anything that a client asks for."""
    if not name:
        raise Refusal("invalid", f"the name of a {kind} cannot be empty")
    octets = len(name.encode("utf-8", "surrogateescape"))
    if octets > NAME_OCTETS_MAX:
        raise Refusal("invalid", f"{kind} name of {octets} octets is longer than {NAME_OCTETS_MAX}")
    if any(character in name for character in "\r\n\0"):
        raise Refusal("invalid", f"{kind} name {name!r} has a control character in it")


def check_vhost(ledger: Ledger, name: str) -> None:
    if not ledger.topology.has_vhost(name):
        raise Refusal("not_found", f"there is no vhost '{name}'")


def vhost_add(administration: Administration, name: str) -> bool:
    check_name("vhost", name)
    return vhosts.add(administration.ledger, name)


def vhost_delete(administration: Administration, name: str) -> None:
    check_vhost(administration.ledger, name)
    vhosts.delete(administration.ledger, name)


def vhost_list(administration: Administration) -> list[dict[str, Any]]:
    topology = administration.ledger.topology
    return [
        {"name": name, "queues": len(topology.queues_in(name)), "exchanges": len(topology.exchanges_in(name))}
        for name in sorted(topology.vhosts())
    ]


COMMANDS: dict[str, Command] = {
    "vhost_add": (vhost_add, {"name": str}),
    "vhost_delete": (vhost_delete, {"name": str}),
    "vhost_list": (vhost_list, {}),
}


def execute(administration: Administration, command: str, arguments: dict[str, Any]) -> Any:
    """Carry out a command and give its result. Refusal if that cannot be; then nothing has changed."""
    if command not in COMMANDS:
        raise Refusal("invalid", f"unknown command {command!r}")
    act, wanted = COMMANDS[command]
    for name, types in wanted.items():
        if name not in arguments:
            raise Refusal("invalid", f"{command}: {name} is missing")
        if not isinstance(arguments[name], types):
            raise Refusal("invalid", f"{command}: {name} is of type {type(arguments[name]).__name__}")
    for name in arguments:
        if name not in wanted:
            raise Refusal("invalid", f"{command}: no argument {name!r}")
    try:
        return act(administration, **arguments)
    except Refusal:
        raise
    except Exception:
        log.exception("command failed", command=command)
        raise Refusal("failed", f"{command} failed, the log has more") from None
