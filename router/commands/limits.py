"""Commands on the numbers of connections, queues, … that a vhost and a user may have.

    command        arguments                              result
    limits_set     scope, name, limits {limit: number}    None; limits that are not named stay
    limits_clear   scope, name, limit | None              None; None is all of them
    limits_list    scope                                  [{name, limit, number, set, used | None}, …]

`scope` is "vhost" or "user". `set` says whether a command has set the limit; else it is the default of the settings.
`used` is None for connections and channels, which acceptors count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.control.control import Refusal
from penstock.text.amounts import NO_LIMIT
from router.authority.ledger import Ledger
from router.commands.administration import Administration, check_user, check_vhost
from router.model.resource_limits import LIMITS, Counted, Holder, HolderLimits, Scope

MOST = 2**53


def limits_set(administration: Administration, scope: str, name: str, limits: Mapping[str, Any]) -> None:
    """Set some limits of a vhost or a user; the others stay."""
    ledger = administration.ledger
    holder = _holder(ledger, scope, name)
    wanted = {_counted(holder.scope, limit).value: _number(limit, number) for limit, number in limits.items()}
    found = HolderLimits(*holder, {**ledger.topology.limits.of(holder), **wanted})
    ledger.record(found.change(), durable=True)


def limits_clear(administration: Administration, scope: str, name: str, limit: str | None) -> None:
    """Return one limit of a vhost or a user, or (None) all of them, to the default."""
    ledger = administration.ledger
    holder = _holder(ledger, scope, name)
    left = {} if limit is None else dict(ledger.topology.limits.of(holder))
    if limit is not None:
        left.pop(_counted(holder.scope, limit).value, None)
    ledger.record(HolderLimits(*holder, left).change(), durable=True)


def limits_list(administration: Administration, scope: str) -> list[dict[str, Any]]:
    """Return the limits of all vhosts or all users, by name, including defaults."""
    topology, known = administration.ledger.topology, _scope(scope)
    names = topology.vhosts() if known == "vhost" else [user.name for user in topology.users.all()]
    rows = (
        _row(administration, Holder(known, name), counted) for name in sorted(names) for counted in LIMITS[known]
    )  # fmt: skip
    return [row for row in rows if row["number"] is not None]


def _row(administration: Administration, holder: Holder, counted: Counted) -> dict[str, Any]:
    limits, ledger = administration.ledger.topology.limits, administration.ledger
    by_acceptors = counted in (Counted.CONNECTIONS, Counted.CHANNELS)
    return {
        "name": holder.name,
        "limit": counted.value,
        "number": limits.limit(holder, counted, administration.limits),
        "set": counted in limits.of(holder),
        "used": None if by_acceptors else ledger.usage.numbers[holder, counted],
    }


def _scope(scope: str) -> Scope:
    for known in LIMITS:
        if known == scope:
            return known
    raise Refusal("invalid", f"limits are those of a vhost or a user, not of a '{scope}'")


def _holder(ledger: Ledger, scope: str, name: str) -> Holder:
    known = _scope(scope)
    (check_vhost if known == "vhost" else check_user)(ledger, name)
    return Holder(known, name)


def _counted(scope: Scope, limit: str) -> Counted:
    for counted in LIMITS[scope]:
        if counted == limit:
            return counted
    raise Refusal("invalid", f"a {scope} has no limit '{limit}'; it has {', '.join(LIMITS[scope])}")


def _number(limit: str, number: object) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or not NO_LIMIT <= number <= MOST:
        raise Refusal("invalid", f"{limit} is a number, or -1 for no limit; not {number!r}")
    return number


_WHOSE: dict[str, type] = {"scope": str, "name": str}

COMMANDS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "limits_set": (limits_set, {**_WHOSE, "limits": dict}),
    "limits_clear": (limits_clear, {**_WHOSE, "limit": (str, type(None))}),
    "limits_list": (limits_list, {"scope": str}),
}
