"""What can be commanded over the control socket: names, arguments, results.

    command                  arguments                                         result
    vhost_add                name                                              whether it is new
    vhost_delete             name                                              None; its connections are closed
    vhost_list                                                                 [{name, queues, exchanges}, …]
    user_add                 name, password_hash, tags                         None
    user_set                 name, password_hash | None, tags | None           None; what is None stays
    user_delete              name                                              None; its connections are closed
    user_list                                                                  [{name, tags, password, vhosts}, …]
    permission_set           user, vhost, configure, write, read               None
    permission_delete        user, vhost                                       None
    permission_list          user | None, vhost | None                         [{user, vhost, configure, …}, …]
    topic_permission_set     user, vhost, exchange, write, read                None
    topic_permission_delete  user, vhost, exchange | None                      None
    topic_permission_list    user | None, vhost | None                         [{user, vhost, exchange, …}, …]
    accounts_import          vhosts_named, users, permissions,                 how many of each
                             topic_permissions

The commands about policies are in `router.commands.policies`, those about flow control in `router.commands.flow` and
`router.commands.stops`, those about how many of everything there may be in `router.commands.limits`, those about where
queues live in `router.commands.moves`, those about shards in `router.commands.shards`, those about who applies a plan
in `router.commands.rebalancing`; `acceptors_restart` is the supervisor's to carry out, and passed on by
`router.process`.

A password hash is as `penstock.control.passwords` has it: the password itself stays with who sets it. A refusal says
why, in words for a person.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.control.control import Refusal
from penstock.node.logs import get_logger
from router.authority import vhosts
from router.commands import accounts, flow, hold_offs, limits, moves, policies, rebalancing, shards, stops
from router.commands.administration import Administration, check_name, check_vhost

log = get_logger()

Types = type | tuple[type, ...]
Command = tuple[Callable[..., Any], dict[str, Types]]


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


_OPTIONAL: Types = (str, type(None))
_WHOSE: dict[str, Types] = {"user": str, "vhost": str}
_SELECTED: dict[str, Types] = {"user": _OPTIONAL, "vhost": _OPTIONAL}

COMMANDS: dict[str, Command] = {
    "vhost_add": (vhost_add, {"name": str}),
    "vhost_delete": (vhost_delete, {"name": str}),
    "vhost_list": (vhost_list, {}),
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
    "accounts_import": (
        accounts.accounts_import,
        dict.fromkeys(("vhosts_named", "users", "permissions", "topic_permissions"), list),
    ),
    **policies.COMMANDS,
    **flow.COMMANDS,
    **stops.COMMANDS,
    **hold_offs.COMMANDS,
    **limits.COMMANDS,
    **rebalancing.COMMANDS,
    **moves.COMMANDS,
    **shards.COMMANDS,
}

NOT_NOTED = frozenset(
    {
        "vhost_list", "user_list", "permission_list", "topic_permission_list", "limits_list", "policy_list",
        "policy_try", "policy_explain", "flow_explain", "flow_stops", "flow_hold_offs", "shard_list", "placement",
        "rebalance_lease", "rebalance_hold",
    }
)  # fmt: skip
"""Commands that no audit record is made of: they change nothing, or (`rebalance_hold`) are given every few seconds."""


def execute(administration: Administration, command: str, arguments: dict[str, Any]) -> Any:
    """Carry out a command and give its result. Refusal if that cannot be; then nothing has changed.

    It raises nothing else but what came of a bug in the middle of a change.
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
    """Refusal of a command whose arguments are not those it takes."""
    for name, types in wanted.items():
        if name not in arguments:
            raise Refusal("invalid", f"{command}: {name} is missing")
        if not isinstance(arguments[name], types):
            raise Refusal("invalid", f"{command}: {name} is of type {type(arguments[name]).__name__}")
    for name in arguments:
        if name not in wanted:
            raise Refusal("invalid", f"{command}: no argument {name!r}")
