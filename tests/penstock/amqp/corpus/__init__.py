"""Test bytes for the codec, and their meaning.

`clients.json`: payloads of method and header frames as client libraries wrote them to a broker, with their meaning.
`malformed.json`: bytes at the limits of the format, with the reply code of the error, or null if they decode. Findings
of fuzz tests are added here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

_HERE = Path(__file__).parent
_CLIENTS: list[dict[str, Any]] = json.loads((_HERE / "clients.json").read_text())
_MALFORMED: dict[str, list[dict[str, Any]]] = json.loads((_HERE / "malformed.json").read_text())


def from_clients(frame: str) -> list[Any]:
    """Return parameters (payload, name of the method or None, repr of the meaning) of the frames of one kind."""
    return [
        pytest.param(bytes.fromhex(each["payload"]), each.get("name"), each["says"], id=f"{at}-{each['client']}")
        for at, each in enumerate(_CLIENTS)
        if each["frame"] == frame
    ]


def at_the_limits(kind: str) -> list[Any]:
    """Return parameters (bytes, reply code or None) for one of `tables`, `methods`, `properties`, `streams`."""
    return [pytest.param(bytes.fromhex(each["octets"]), each["code"], id=each["what"]) for each in _MALFORMED[kind]]


def nbytes(kind: str) -> list[bytes]:
    """Return all bytes of one kind, for a fuzz test to damage."""
    frame = {"methods": "method", "properties": "header"}.get(kind)
    skip = 12 if kind == "properties" else 0
    clients = [bytes.fromhex(each["payload"])[skip:] for each in _CLIENTS if each["frame"] == frame]
    return clients + [bytes.fromhex(each["octets"]) for each in _MALFORMED[kind]]
