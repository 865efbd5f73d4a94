"""RabbitMQ's definitions: the parts that are read, and the errors for malformed ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ops.administration.definitions import accounts_of
from ops.errors import CommandError
from tests.router.making import rabbit_hash

HASH = rabbit_hash("x")
USER = {"name": "bob", "password_hash": HASH.removeprefix("sha256:"), "tags": ["management", "custom"]}


def written(tmp_path: Path, definitions: Any) -> Path:
    file = tmp_path / "definitions.json"
    file.write_text(definitions if isinstance(definitions, str) else json.dumps(definitions))
    return file


def test_what_is_read(tmp_path: Path) -> None:
    topic = {"user": "bob", "vhost": "v", "exchange": "x", "write": "a", "read": "b"}
    permission = {"user": "bob", "vhost": "v", "configure": "c", "write": "w", "read": "r", "more": 1}
    file = written(
        tmp_path,
        {
            "users": [USER, {**USER, "name": "old", "tags": "administrator, monitoring", "password_hash": ""}],
            "vhosts": [{"name": "v", "limits": []}],
            "permissions": [permission],
            "topic_permissions": [topic],
            "queues": [{}],
        },
    )
    assert accounts_of(file) == {
        "vhosts_named": ["v"],
        "users": [["bob", HASH, ["management", "custom"]], ["old", "", ["administrator", "monitoring"]]],
        "permissions": [["bob", "v", "c", "w", "r"]],
        "topic_permissions": [["bob", "v", "x", "a", "b"]],
    }


def test_nothing_of_it(tmp_path: Path) -> None:
    assert not any(accounts_of(written(tmp_path, {})).values())


@pytest.mark.parametrize(
    ("definitions", "text"),
    [
        ("{", "is not JSON"),
        ([], "contains no RabbitMQ definitions"),
        ({"users": {}}, "users is not a list"),
        ({"users": [USER, {"name": "eve"}]}, "users, number 2: no password_hash"),
        ({"vhosts": ["v"]}, "vhosts, number 1: no name"),
        ({"users": [{**USER, "hashing_algorithm": "rabbit_password_hashing_md5"}]}, "user 'bob': hashing algorithm"),
        ({"users": [{**USER, "password_hash": "x"}]}, "user 'bob': the sha256 password hash is not base64"),
    ],
)
def test_refusals(tmp_path: Path, definitions: Any, text: str) -> None:
    with pytest.raises(CommandError, match=text):
        accounts_of(written(tmp_path, definitions))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="No such file"):
        accounts_of(tmp_path / "none.json")
