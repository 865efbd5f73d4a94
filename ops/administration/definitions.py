"""The accounts in RabbitMQ's exported definitions (`rabbitmqctl export_definitions`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from ops.errors import CommandError
from penstock.control import passwords

DEFAULT_ALGORITHM = "rabbit_password_hashing_sha256"


def read(file: Path) -> dict[str, Any]:
    """Read the definitions in a file. CommandError if it cannot be read or contains none."""
    try:
        definitions = orjson.loads(file.read_bytes())
    except OSError as error:
        raise CommandError(f"cannot read {file}: {error.strerror}") from None
    except orjson.JSONDecodeError as error:
        raise CommandError(f"{file} is not JSON: {error}") from None
    if not isinstance(definitions, dict):
        raise CommandError(f"{file} contains no RabbitMQ definitions")
    return definitions


def rows(definitions: Mapping[str, Any], section: str, *fields: str) -> list[list[Any]]:
    """Return the given fields of each record of a section, which may be missing. CommandError if a record lacks one."""
    records = definitions.get(section, [])
    if not isinstance(records, list):
        raise CommandError(f"{section} is not a list")
    found = []
    for number, record in enumerate(records, 1):
        for field in fields:
            if not isinstance(record, dict) or field not in record:
                raise CommandError(f"{section}, number {number}: no {field}")
        found.append([record[field] for field in fields])
    return found


def accounts_of(file: Path) -> dict[str, list[Any]]:
    """Return the arguments of `accounts_import`. CommandError if the file is no export of RabbitMQ's definitions."""
    definitions = read(file)
    users = rows(definitions, "users", "name", "password_hash")
    records = definitions.get("users", [])
    return {
        "vhosts_named": [name for (name,) in rows(definitions, "vhosts", "name")],
        "users": [_user(name, encoded, record) for (name, encoded), record in zip(users, records, strict=True)],
        "permissions": rows(definitions, "permissions", "user", "vhost", "configure", "write", "read"),
        "topic_permissions": rows(definitions, "topic_permissions", "user", "vhost", "exchange", "write", "read"),
    }


def _user(name: Any, encoded: Any, record: Mapping[str, Any]) -> list[Any]:
    tags = record.get("tags", [])  # a string before 3.9: "administrator,monitoring"
    if isinstance(tags, str):
        tags = [tag.strip() for tag in tags.split(",") if tag.strip()]
    try:
        stored = passwords.from_rabbitmq(str(encoded), str(record.get("hashing_algorithm", DEFAULT_ALGORITHM)))
    except ValueError as error:
        raise CommandError(f"user '{name}': {error}") from None
    return [name, stored, tags]
