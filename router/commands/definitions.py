"""Commands on definitions, the whole of topology and accounts in RabbitMQ's format (`router.commands.document`).

command             arguments                                       result
definitions_export  vhost | None                                    the document; of one vhost without users
definitions_import  definitions (a document), vhost | None (into    {imported: {section: number}, refused: [text],
                    which all goes), sections | None (only these),  ignored: [text]}
                    skip_refused

If a record is refused, nothing is imported, or with `skip_refused` all others: a user without the permissions that
limit it could do more than was meant. Users, permissions, limits and policies replace existing ones. Exchanges, queues
and bindings are declared: one that exists with other properties is refused.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock import __version__
from penstock.amqp.errors import AMQPError
from penstock.control import passwords
from penstock.control.control import Refusal
from router.authority import vhosts
from router.authority.checks import RESERVED, check_equivalent, check_new_name
from router.commands import accounts, limits, policies
from router.commands.administration import Administration, check_metadata, check_name, check_vhost
from router.commands.document import OPERATOR_POLICY, VHOST_LIMITS, Document, DocumentError, Fields, read
from router.model.delaying import is_delay_queue
from router.model.records import Arguments, Policy, described
from router.model.resource_limits import Holder
from router.model.topology import Topology

SERVER_NAMED = "amq.gen-"

PRODUCT: dict[str, Any] = {"product_name": "penstock", "product_version": __version__}


# Import


def definitions_import(
    administration: Administration,
    definitions: Any,
    vhost: str | None,
    sections: list[Any] | None,
    skip_refused: bool,
) -> dict[str, Any]:
    """Import the sections of a document, or (None) all. Refusal if the document is malformed."""
    if vhost is not None:
        check_vhost(administration.ledger, vhost)
    unknown = [each for each in sections or () if each not in SECTIONS]
    if unknown:
        raise Refusal("invalid", f"there is no section {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    try:
        document = read(definitions, vhost)
    except DocumentError as error:
        raise Refusal("invalid", str(error)) from None
    wanted = list(SECTIONS) if sections is None else sections
    imported: Mapping[str, int] = {}
    refused: list[str] = []
    if not skip_refused:
        trial = Administration(administration.authority.trial(), administration.through)
        _, refused = _import(trial, document, wanted)
    if not refused:
        imported, refused = _import(administration, document, wanted)
    return {"imported": imported, "refused": refused, "ignored": document.ignored}


def import_file(administration: Administration, file: Path) -> dict[str, Any]:
    """Import the definitions in a file. Refusal if the file contains none, or if any of them is refused."""
    try:
        definitions = json.loads(file.read_bytes())
    except OSError as error:
        raise Refusal("invalid", f"cannot read definitions {file}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise Refusal("invalid", f"definitions {file} are not JSON: {error}") from None
    try:
        found = definitions_import(administration, definitions, None, None, skip_refused=False)
    except Refusal as refusal:
        raise Refusal(refusal.kind, f"definitions {file}: {refusal}") from None
    if found["refused"]:
        first, *more = found["refused"]
        raise Refusal("invalid", f"definitions {file}: {first}" + (f", and {len(more)} more" if more else ""))
    return found


def _import(
    administration: Administration, document: Document, sections: Sequence[str]
) -> tuple[Mapping[str, int], list[str]]:
    """Import sections of a document, in an order in which no record lacks what it names. Return the number of each, and
    the refusals.
    """
    imported: Counter[str] = Counter()
    refused = []
    ordered = [section for section in SECTIONS if section in sections]
    records = [(section, fields) for section in ordered for fields in getattr(document, section)]
    for section, fields in administration.through(records):
        described_by, act = SECTIONS[section]
        try:
            act(administration, **fields)
            imported[section] += 1
        except (Refusal, AMQPError) as error:
            reason = error.text if isinstance(error, AMQPError) else str(error)
            refused.append(f"{described_by(fields)}: {reason}")
    return imported, refused


def _import_vhost(
    administration: Administration, name: str, description: str | None = None, tags: list[str] | None = None
) -> None:
    check_name("vhost", name)
    check_metadata(description, tags)
    vhosts.add(administration.ledger, name)
    vhosts.describe(administration.ledger, name, description, tags)


def _import_exchange(administration: Administration, **fields: Any) -> None:
    administration.authority.exchange_declare(**fields, passive=False, user=None)


def _import_queue(
    administration: Administration, vhost: str, name: str, durable: bool, auto_delete: bool, arguments: Arguments
) -> None:
    authority = administration.authority
    existing = authority.topology.queue(vhost, name)
    if existing is not None:
        check_equivalent(existing, durable, auto_delete, None, arguments)
        return
    check_vhost(administration.ledger, vhost)
    check_new_name("queue", name.removeprefix(SERVER_NAMED))  # its first server has made it up
    authority.make_queue(vhost, name, False, durable, auto_delete, None, arguments, None)


def _import_binding(
    administration: Administration, vhost: str, source: str, kind: str, destination: str, key: str, arguments: Arguments
) -> None:
    authority = administration.authority
    if kind == "queue":
        authority.queue_bind(vhost, destination, source, key, arguments, None, None)
    else:
        authority.exchange_bind(vhost, destination, source, key, arguments, None)


def _named(kind: str) -> Callable[[Fields], str]:
    return lambda fields: described(kind, fields["name"], fields["vhost"])


def _permission(fields: Fields) -> str:
    return f"permission of user '{fields['user']}' in vhost '{fields['vhost']}'"


def _binding(fields: Fields) -> str:
    to = f"binding of {fields['kind']} '{fields['destination']}'"
    return f"{to} to {described('exchange', fields['source'], fields['vhost'])}"


SECTIONS: dict[str, tuple[Callable[[Fields], str], Callable[..., object]]] = {
    "vhosts": (lambda fields: f"vhost '{fields['name']}'", _import_vhost),
    "users": (lambda fields: f"user '{fields['name']}'", accounts.user_import),
    "permissions": (_permission, accounts.permission_set),
    "topic_permissions": (lambda fields: f"topic {_permission(fields)}", accounts.topic_permission_set),
    "limits": (lambda fields: f"limits of {fields['scope']} '{fields['name']}'", limits.limits_set),
    "policies": (_named("policy"), policies.policy_set),
    "exchanges": (_named("exchange"), _import_exchange),
    "queues": (_named("queue"), _import_queue),
    "bindings": (_binding, _import_binding),
}
"""The sections of a document in the order of their import: the name of a record in texts, and its import."""


# Export


def definitions_export(administration: Administration, vhost: str | None) -> dict[str, Any]:
    """Return the definitions of the node, or of one vhost: without its users, and with policies of the node left out.

    Predeclared exchanges, exclusive queues and delay queues are left out: those are made with their exchanges.
    """
    topology = administration.ledger.topology
    if vhost is not None:
        check_vhost(administration.ledger, vhost)
    names = sorted(topology.vhosts()) if vhost is None else [vhost]
    of_vhosts: dict[str, Any] = {
        "vhosts": [_vhost(topology, name) for name in names],
        "permissions": accounts.permission_list(administration, None, vhost),
        "topic_permissions": accounts.topic_permission_list(administration, None, vhost),
        "parameters": [each for name in names for each in _parameters(topology, name)],
        "policies": [
            {"vhost": name, "name": policy.name, **_policy(policy)}
            for name in names
            for policy in topology.policies(name, operator=False)
        ],
        "exchanges": [each for name in names for each in _exchanges(topology, name)],
        "queues": [each for name in names for each in _queues(topology, name)],
        "bindings": [each for name in names for each in _bindings(topology, name)],
    }
    if vhost is not None:
        return {**PRODUCT, **of_vhosts}
    node_policies = [
        {"name": policy.name, **_policy(policy), "operator": operator}
        for operator in (False, True)
        for policy in topology.policies("", operator=operator)
    ]
    return {**PRODUCT, "users": _users(topology), **of_vhosts, "node_policies": node_policies}


def _vhost(topology: Topology, name: str) -> Fields:
    metadata = topology.vhost_metadata.get(name)
    if metadata is None:
        return {"name": name}
    return {"name": name, "metadata": {"description": metadata.description, "tags": metadata.tags}}


def _users(topology: Topology) -> list[Fields]:
    found = []
    for user in sorted(topology.users.all(), key=lambda user: user.name):
        encoded, algorithm = passwords.to_rabbitmq(user.password_hash)
        found.append(
            {
                "name": user.name, "password_hash": encoded, "hashing_algorithm": algorithm, "tags": user.tags,
                "limits": dict(topology.limits.of(Holder("user", user.name))),
            }
        )  # fmt: skip
    return found


def _parameters(topology: Topology, vhost: str) -> Iterator[Fields]:
    """Yield what RabbitMQ keeps as parameters of a vhost: its limits and operator policies."""
    if found := topology.limits.of(Holder("vhost", vhost)):
        yield {"component": VHOST_LIMITS, "vhost": vhost, "name": "limits", "value": dict(found)}
    for policy in topology.policies(vhost, operator=True):
        yield {"component": OPERATOR_POLICY, "vhost": vhost, "name": policy.name, "value": _policy(policy)}


def _policy(policy: Policy) -> Fields:
    return {
        "pattern": policy.pattern, "apply-to": policy.apply_to, "priority": policy.priority,
        "definition": dict(policy.definition),
    }  # fmt: skip


def _exchanges(topology: Topology, vhost: str) -> list[Fields]:
    return [
        {
            **{field: getattr(exchange, field) for field in ("vhost", "name", "type", "durable", "auto_delete")},
            "internal": exchange.internal,
            "arguments": dict(exchange.arguments),
        }
        for exchange in sorted(topology.exchanges_in(vhost), key=lambda exchange: exchange.name)
        if exchange.name and not exchange.name.startswith(RESERVED)
    ]


def _queues(topology: Topology, vhost: str) -> list[Fields]:
    return [
        {
            **{field: getattr(queue, field) for field in ("vhost", "name", "durable", "auto_delete")},
            "arguments": dict(queue.arguments),
        }
        for queue in sorted(topology.queues_in(vhost), key=lambda queue: queue.name)
        if queue.owner is None and not is_delay_queue(queue.name)
    ]


def _bindings(topology: Topology, vhost: str) -> list[Fields]:
    exclusive = {("queue", queue.name) for queue in topology.queues_in(vhost) if queue.owner is not None}
    return [
        {
            "vhost": vhost, "source": binding.source, "destination": binding.destination,
            "destination_type": binding.kind, "routing_key": binding.key, "arguments": dict(binding.arguments),
        }
        for exchange in sorted(topology.exchanges_in(vhost), key=lambda exchange: exchange.name)
        for binding in topology.bindings_from(vhost, exchange.name)
        if binding.target not in exclusive
    ]  # fmt: skip


COMMANDS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "definitions_export": (definitions_export, {"vhost": (str, type(None))}),
    "definitions_import": (
        definitions_import,
        {"definitions": dict, "vhost": (str, type(None)), "sections": (list, type(None)), "skip_refused": bool},
    ),
}
