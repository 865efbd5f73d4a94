"""Commands on exchanges and bindings, and on the arguments of declarations: names, arguments, results.

    command            arguments      result
    exchange_list      vhost | None   [{vhost, name, type, durable, auto_delete, internal, alternate, policy,
                                      arguments}, …]
    binding_list       vhost | None   [{vhost, source, kind, destination, key, arguments}, …]
    foreign_arguments                 {exchanges, queues: [[vhost, name, arguments], …]}

In lists `arguments` are text. The default exchange and its implied bindings are not listed. Foreign arguments have no
meaning here: only the router keeps them, for those who look them up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from router.authority.checks import EXCHANGE_ARGUMENTS
from router.authority.queue_arguments import KNOWN
from router.commands.administration import Administration, check_vhost
from router.model.records import Arguments, Exchange, Queue


def exchange_list(administration: Administration, vhost: str | None) -> list[dict[str, Any]]:
    """Return the exchanges of a vhost, or (None) of all vhosts, by name."""
    fields = ("vhost", "name", "type", "durable", "auto_delete", "internal", "alternate", "policy")
    return [
        {**{field: getattr(exchange, field) for field in fields}, "arguments": words(exchange.arguments)}
        for exchange in _exchanges(administration, vhost)
    ]


def binding_list(administration: Administration, vhost: str | None) -> list[dict[str, Any]]:
    """Return the bindings in a vhost, or (None) in all vhosts, by the exchange that they are from."""
    topology = administration.ledger.topology
    fields = ("vhost", "source", "kind", "destination", "key")
    return [
        {**{field: getattr(binding, field) for field in fields}, "arguments": words(binding.arguments)}
        for exchange in _exchanges(administration, vhost)
        for binding in sorted(
            topology.bindings_from(exchange.vhost, exchange.name),
            key=lambda binding: (binding.kind, binding.destination, binding.key),
        )
    ]


def foreign_arguments(administration: Administration) -> dict[str, list[Any]]:
    """Return the arguments without a meaning of all exchanges and queues that have any."""
    topology = administration.ledger.topology
    exchanges = (exchange for vhost in topology.vhosts() for exchange in topology.exchanges_in(vhost))
    return {"exchanges": _foreign(exchanges, EXCHANGE_ARGUMENTS), "queues": _foreign(topology.queues(), KNOWN)}


def _foreign(declared: Iterable[Exchange | Queue], known: frozenset[str]) -> list[Any]:
    return [
        [each.vhost, each.name, {name: _shown(value) for name, value in each.arguments.items() if name not in known}]
        for each in declared
        if not known.issuperset(each.arguments)
    ]


def _shown(value: Any) -> Any:
    """Return a value of a field table as JSON shows it."""
    if isinstance(value, dict):
        return {str(name): _shown(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_shown(each) for each in value]
    return value if isinstance(value, str | bool | int | float | None) else _word(value)


def words(arguments: Arguments) -> str:
    """Return arguments as text."""
    return ", ".join(f"{name}: {_word(value)}" for name, value in arguments.items())


def _word(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return json.dumps(value, default=_word) if isinstance(value, (bool, int, float, list, dict)) else str(value)


def _exchanges(administration: Administration, vhost: str | None) -> Iterator[Exchange]:
    topology = administration.ledger.topology
    if vhost is not None:
        check_vhost(administration.ledger, vhost)
    for name in sorted(topology.vhosts()) if vhost is None else [vhost]:
        yield from sorted(
            (exchange for exchange in topology.exchanges_in(name) if exchange.name), key=lambda exchange: exchange.name
        )


COMMANDS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "exchange_list": (exchange_list, {"vhost": (str, type(None))}),
    "binding_list": (binding_list, {"vhost": (str, type(None))}),
    "foreign_arguments": (foreign_arguments, {}),
}
