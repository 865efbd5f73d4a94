"""The commands of the control socket: names, arguments, results.

    command                  arguments                                         result
    vhost_add                name                                              whether it is new
    vhost_describe           name, description | None, tags | None             None; fields that are None stay
    vhost_delete             name                                              None; its connections are closed
    vhost_list                                                                 [{name, queues, exchanges}, …]
    queue_churn                                                                {queues_made, queues_removed} since start
    user_add                 name, password_hash, tags                         None
    user_set                 name, password_hash | None, tags | None           None; fields that are None stay
    user_delete              name                                              None; its connections are closed
    user_list                                                                  [{name, tags, password, vhosts}, …]
    permission_set           user, vhost, configure, write, read               None
    permission_delete        user, vhost                                       None
    permission_list          user | None, vhost | None                         [{user, vhost, configure, …}, …]
    topic_permission_set     user, vhost, exchange, write, read                None
    topic_permission_delete  user, vhost, exchange | None                      None
    topic_permission_list    user | None, vhost | None                         [{user, vhost, exchange, …}, …]

Further commands are in other modules of `router.commands`: on policies in `policies`, on flow control in `flow`,
`stops` and `hold_offs`, on numbers of queues, connections, … in `limits`, on exchanges and bindings in `exchanges`, on
definitions in `definitions`, on placements of queues in `moves`, on shards in `shards`, on the lease of applying a plan
in `rebalancing`.
`router.process` passes `acceptors_restart` and `node_upgrade` on to the supervisor.

A password hash is in the format of `penstock.control.passwords`: the password itself does not leave the client that
sets it. A refusal gives its reason in words for a person.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.control.control import Refusal
from penstock.node.logs import get_logger
from router.authority import vhosts
from router.commands import (
    accounts,
    definitions,
    exchanges,
    flow,
    hold_offs,
    limits,
    moves,
    policies,
    rebalancing,
    shards,
    stops,
)
from router.commands.administration import Administration, check_metadata, check_name, check_vhost

log = get_logger()

Types = type | tuple[type, ...]
Command = tuple[Callable[..., Any], dict[str, Types]]


def vhost_add(administration: Administration, name: str) -> bool:
    """Make a vhost, or the predeclared exchanges that it lacks; whether it is new."""
    check_name("vhost", name)
    return vhosts.add(administration.ledger, name)


def vhost_describe(administration: Administration, name: str, description: str | None, tags: list[Any] | None) -> None:
    """Give a vhost another description, other tags."""
    check_vhost(administration.ledger, name)
    check_metadata(description, tags)
    vhosts.describe(administration.ledger, name, description, tags)


def vhost_delete(administration: Administration, name: str) -> None:
    """Delete a vhost with all its contents; acceptors close its connections."""
    check_vhost(administration.ledger, name)
    vhosts.delete(administration.ledger, name)


def vhost_list(administration: Administration) -> list[dict[str, Any]]:
    """Return all vhosts by name, with the numbers of their queues and exchanges."""
    topology = administration.ledger.topology
    return [
        {"name": name, "queues": len(topology.queues_in(name)), "exchanges": len(topology.exchanges_in(name))}
        for name in sorted(topology.vhosts())
    ]


def queue_churn(administration: Administration) -> dict[str, int]:
    """Return how many queues were made and removed since the start of the router."""
    ledger = administration.ledger
    return {"queues_made": ledger.queues_made, "queues_removed": ledger.queues_removed}


_OPTIONAL: Types = (str, type(None))
_WHOSE: dict[str, Types] = {"user": str, "vhost": str}
_SELECTED: dict[str, Types] = {"user": _OPTIONAL, "vhost": _OPTIONAL}

COMMANDS: dict[str, Command] = {
    "vhost_add": (vhost_add, {"name": str}),
    "vhost_describe": (
        vhost_describe,
        {"name": str, "description": _OPTIONAL, "tags": (list, type(None))},
    ),
    "vhost_delete": (vhost_delete, {"name": str}),
    "vhost_list": (vhost_list, {}),
    "queue_churn": (queue_churn, {}),
    "user_add": (accounts.user_add, {"name": str, "password_hash": str, "tags": list}),
    "user_set": (accounts.user_set, {"name": str, "password_hash": _OPTIONAL, "tags": (list, type(None))}),
    "user_delete": (accounts.user_delete, {"name": str}),
    "user_list": (accounts.user_list, {}),
    "permission_set": (accounts.permission_set, {**_WHOSE, "configure": str, "write": str, "read": str}),
    "permission_delete": (accounts.permission_delete, _WHOSE),
    "permission_list": (accounts.permission_list, _SELECTED),
    "topic_permission_set": (
        accounts.topic_permission_set,
        {**_WHOSE, "exchange": str, "write": str, "read": str},
    ),
    "topic_permission_delete": (accounts.topic_permission_delete, {**_WHOSE, "exchange": _OPTIONAL}),
    "topic_permission_list": (accounts.topic_permission_list, _SELECTED),
    **policies.COMMANDS,
    **flow.COMMANDS,
    **stops.COMMANDS,
    **hold_offs.COMMANDS,
    **limits.COMMANDS,
    **rebalancing.COMMANDS,
    **moves.COMMANDS,
    **exchanges.COMMANDS,
    **definitions.COMMANDS,
    **shards.COMMANDS,
}

NOT_AUDITED = frozenset(
    {
        "vhost_list", "user_list", "permission_list", "topic_permission_list", "limits_list", "policy_list",
        "policy_try", "policy_explain", "flow_explain", "flow_stops", "flow_hold_offs", "shard_list", "placement",
        "queue_churn", "rebalance_lease", "rebalance_hold", "exchange_list", "binding_list", "foreign_arguments",
    }
)  # fmt: skip
"""Commands without an audit record: they change nothing, or (`rebalance_hold`) come every few seconds."""


def execute(administration: Administration, command: str, arguments: dict[str, Any]) -> Any:
    """Carry out a command and return its result. After a Refusal nothing has changed.

    It raises another error only for a bug in the middle of a change.
    """
    before = administration.ledger.recorded
    if command not in COMMANDS:
        raise Refusal("invalid", f"unknown command {command!r}")
    act, wanted = COMMANDS[command]
    check_arguments(command, wanted, arguments)
    try:
        return act(administration, **arguments)
    except Refusal:
        raise
    except Exception:
        if administration.ledger.recorded != before:
            raise
        log.exception("command failed", command=command)
        raise Refusal("failed", f"{command} failed, the log has more") from None


def check_arguments(command: str, wanted: Mapping[str, Types], arguments: Mapping[str, Any]) -> None:
    """Refuse a command whose arguments are not those that it takes."""
    for name, types in wanted.items():
        if name not in arguments:
            raise Refusal("invalid", f"{command}: {name} is missing")
        if not isinstance(arguments[name], types):
            raise Refusal("invalid", f"{command}: {name} is of type {type(arguments[name]).__name__}")
    for name in arguments:
        if name not in wanted:
            raise Refusal("invalid", f"{command}: no argument {name!r}")
