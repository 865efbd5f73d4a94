"""A document of definitions (`rabbitmqctl export_definitions`), read and checked in form. It changes nothing.

A document is a JSON object with a list of objects for each section. Those of 3.10 and of 4 differ in little:

    vhosts             name, metadata {description, tags}
    users              name, password_hash, hashing_algorithm, tags (before 3.9 one text: "administrator,monitoring"),
                       limits {limit: number}
    permissions        user, vhost, configure, write, read
    topic_permissions  user, vhost, exchange, write, read
    parameters         component, vhost, name, value; read are `operator_policy` and `vhost-limits`
    policies           vhost, name, pattern, apply-to, priority, definition
    operator_policies  the same
    node_policies      the same without a vhost, and operator (true, false); only penstock has them
    exchanges          vhost, name, type, durable, auto_delete, internal, arguments
    queues             vhost, name, durable, auto_delete, arguments; type (since 4) is that of `x-queue-type`
    bindings           vhost, source, destination, destination_type, routing_key, arguments

Definitions of one vhost lack the vhost. `Document.ignored` names everything that has no meaning here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeGuard

from penstock.control import passwords

Fields: TypeAlias = dict[str, Any]

DEFAULT_ALGORITHM = "rabbit_password_hashing_sha256"
OPERATOR_POLICY, VHOST_LIMITS = "operator_policy", "vhost-limits"

ABOUT = frozenset(
    {
        "rabbit_version", "rabbitmq_version", "rabbitmq_definition_format", "product_name", "product_version",
        "original_cluster_name", "original_vhost_name", "explanation",
    }
)  # fmt: skip
"""Members that tell of the document itself."""

INTEGER_BITS = 64
"""The widest integers of a field table (AMQP 0-9-1, 4.2.5.5)."""

_MISSING = object()


class DocumentError(ValueError):
    """A document that is malformed; the text names the place and is meant for a person."""


@dataclass(frozen=True, slots=True)
class Document:
    """The records of a document, each as the arguments of its import (`router.commands.definitions`)."""

    vhosts: list[Fields] = field(default_factory=list)
    users: list[Fields] = field(default_factory=list)
    permissions: list[Fields] = field(default_factory=list)
    topic_permissions: list[Fields] = field(default_factory=list)
    limits: list[Fields] = field(default_factory=list)
    policies: list[Fields] = field(default_factory=list)
    exchanges: list[Fields] = field(default_factory=list)
    queues: list[Fields] = field(default_factory=list)
    bindings: list[Fields] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)


def read(document: object, vhost: str | None = None) -> Document:
    """Read a document. Records of a vhost go into `vhost`, if it is given, wherever they are from. DocumentError if the
    document is malformed.
    """
    if not isinstance(document, Mapping):
        raise DocumentError("these are no definitions: not a JSON object")
    found = Document()
    reader = _Reader(vhost, found)
    for name, records in document.items():
        if name in reader.sections:
            if not isinstance(records, list):
                raise DocumentError(f"{name} is not a list")
            for number, record in enumerate(records, 1):
                reader.sections[name](_Record(f"{name}, number {number}", record))
        elif name not in ABOUT:
            found.ignored.extend(_ignored(name, records))
    return found


def _ignored(name: str, records: object) -> Iterator[str]:
    """Name the contents of a section without a meaning here."""
    if not isinstance(records, list):
        yield name
        return
    for record in records:
        own = record.get("name") if isinstance(record, Mapping) else None
        yield f"{name}: {own}" if isinstance(own, str) else name


def _is_pairs(value: object) -> TypeGuard[list[list[Any]]]:
    """Whether a value is a list of names with their values."""
    return isinstance(value, list) and all(
        isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in value
    )


class _Record:
    """One record of a section. DocumentError for a field that is missing, or of another type."""

    def __init__(self, place: str, record: object) -> None:
        self.place = place
        if not isinstance(record, Mapping):
            raise DocumentError(f"{place}: not an object")
        self.fields = record

    def get(self, name: str, kind: type, default: Any = _MISSING) -> Any:
        value = self.fields.get(name, default)
        if value is _MISSING:
            raise DocumentError(f"{self.place}: no {name}")
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise DocumentError(f"{self.place}: {name} cannot be {value!r:.100}")
        if isinstance(value, str):
            self._check_text(value)
        return value

    def texts(self, *names: str) -> Fields:
        return {name: self.get(name, str) for name in names}

    def table(self, name: str) -> Fields:
        """Return a field table; empty if there is none. RabbitMQ writes an empty one as a list."""
        if self.fields.get(name) == []:
            return {}
        found: Fields = self.get(name, dict, {})
        self._check_value(found)
        return found

    def _check_value(self, value: Any) -> None:
        if isinstance(value, str):
            self._check_text(value)
        elif isinstance(value, int) and not -(2 ** (INTEGER_BITS - 1)) <= value < 2 ** (INTEGER_BITS - 1):
            raise DocumentError(f"{self.place}: {value} does not fit into {INTEGER_BITS} bits")
        elif isinstance(value, (dict, list)):
            for inner in [*value, *value.values()] if isinstance(value, dict) else value:
                self._check_value(inner)

    def _check_text(self, text: str) -> None:
        try:
            text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise DocumentError(f"{self.place}: {text!r:.100} is not UTF-8") from None


class _Reader:
    """Reads the sections into a document."""

    def __init__(self, vhost: str | None, into: Document) -> None:
        self.vhost = vhost
        self.into = into
        self.sections: dict[str, Callable[[_Record], None]] = {
            "vhosts": self._vhost,
            "users": self._user,
            "permissions": lambda record: into.permissions.append(
                {**record.texts("user", "configure", "write", "read"), **self._where(record)}
            ),
            "topic_permissions": lambda record: into.topic_permissions.append(
                {**record.texts("user", "exchange", "write", "read"), **self._where(record)}
            ),
            "parameters": self._parameter,
            "policies": lambda record: self._policy(record, self._where(record), operator=False),
            "operator_policies": lambda record: self._policy(record, self._where(record), operator=True),
            "node_policies": lambda record: self._policy(
                record, {"vhost": ""}, operator=record.get("operator", bool, False)
            ),
            "exchanges": self._exchange,
            "queues": self._queue,
            "bindings": self._binding,
        }

    def _where(self, record: _Record) -> Fields:
        return {"vhost": record.get("vhost", str, "/") if self.vhost is None else self.vhost}

    def _vhost(self, record: _Record) -> None:
        name = record.get("name", str)
        metadata = record.table("metadata")
        described: Fields = {}
        if "description" in metadata:
            described["description"] = _Record(record.place, metadata).get("description", str)
        if "tags" in metadata:
            described["tags"] = self._tags(record.place, metadata["tags"])
        self.into.vhosts.append({"name": name, **described})
        kind = record.fields.get("default_queue_type", "undefined")
        if kind not in ("undefined", "classic"):
            self.into.ignored.append(f"vhost '{name}': default_queue_type {kind}")

    def _tags(self, place: str, tags: object) -> list[str]:
        if isinstance(tags, str):
            return [tag.strip() for tag in tags.split(",") if tag.strip()]
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            raise DocumentError(f"{place}: tags cannot be {tags!r:.100}")
        return tags

    def _user(self, record: _Record) -> None:
        name = record.get("name", str)
        tags = self._tags(record.place, record.fields.get("tags", []))
        encoded = record.get("password_hash", str)
        try:
            stored = passwords.from_rabbitmq(encoded, record.get("hashing_algorithm", str, DEFAULT_ALGORITHM))
        except ValueError as error:
            raise DocumentError(f"user '{name}': {error}") from None
        self.into.users.append({"name": name, "password_hash": stored, "tags": tags})
        self._limits("user", name, record.table("limits"))

    def _limits(self, scope: str, name: str, limits: Fields) -> None:
        if limits:
            self.into.limits.append({"scope": scope, "name": name, "limits": limits})

    def _parameter(self, record: _Record) -> None:
        component, where = record.get("component", str), self._where(record)
        if component == OPERATOR_POLICY:
            value = {**record.get("value", dict), "name": record.get("name", str)}
            if _is_pairs(definition := value.get("definition")):  # as 3.10 writes it
                value["definition"] = dict(definition)
            self._policy(_Record(record.place, value), where, operator=True)
        elif component == VHOST_LIMITS:
            self._limits("vhost", where["vhost"], record.table("value"))
        else:
            name = record.get("name", str, "")
            self.into.ignored.append(f"parameter: {component} '{name}' in vhost '{where['vhost']}'")

    def _policy(self, record: _Record, where: Fields, *, operator: bool) -> None:
        self.into.policies.append(
            {
                **where,
                **record.texts("name", "pattern"),
                "operator": operator,
                "apply_to": record.get("apply-to", str, "all"),
                "priority": record.get("priority", int, 0),
                "definition": record.table("definition"),
            }
        )

    def _exchange(self, record: _Record) -> None:
        self.into.exchanges.append(
            {
                **self._where(record),
                **record.texts("name", "type"),
                "durable": record.get("durable", bool, True),
                "auto_delete": record.get("auto_delete", bool, False),
                "internal": record.get("internal", bool, False),
                "arguments": record.table("arguments"),
            }
        )

    def _queue(self, record: _Record) -> None:
        if not record.get("name", str):
            raise DocumentError(f"{record.place}: the name is empty")
        arguments, kind = record.table("arguments"), record.get("type", str, "classic")
        if kind != "classic" and "x-queue-type" not in arguments:
            arguments = {**arguments, "x-queue-type": kind}
        self.into.queues.append(
            {
                **self._where(record),
                **record.texts("name"),
                "durable": record.get("durable", bool, True),
                "auto_delete": record.get("auto_delete", bool, False),
                "arguments": arguments,
            }
        )

    def _binding(self, record: _Record) -> None:
        source, kind = record.get("source", str), record.get("destination_type", str, "queue")
        if kind not in ("queue", "exchange"):
            raise DocumentError(f"{record.place}: destination_type cannot be '{kind}'")
        if source:  # every queue is bound to the default exchange
            self.into.bindings.append(
                {
                    **self._where(record),
                    "source": source,
                    "kind": kind,
                    "destination": record.get("destination", str),
                    "key": record.get("routing_key", str, ""),
                    "arguments": record.table("arguments"),
                }
            )
