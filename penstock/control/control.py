"""The control sockets of a node, which people's commands arrive at.

Unix stream sockets in the runtime directory, for the node's user only: the router's, for changes, and one of each
acceptor and shard, for questions about its own state. Each request is one line of JSON and gets one line of JSON back,
in order:

    {"command": name, "arguments": {…}}      ▶      {"result": …}      or      {"error": text, "kind": kind}

Kinds of errors: `invalid` (the request makes no sense), `not_found`, `exists` (already), `denied` (a user lacks the
right), `busy` (no room at present), `failed` (a bug of ours: see the log). A change that was answered is stored and
known to every process. Text that is not UTF-8 keeps its bytes (PEP 383).
"""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any, Literal

LINE_MAX = 16 * 1024 * 1024
"""Maximum size of a request in bytes, including its newline; an import is one request."""
SURROGATE = b"\\ud"
"""Begins the escape of a surrogate in JSON, in lower case."""
CALL_SECONDS = 60.0

Kind = Literal["invalid", "not_found", "exists", "denied", "busy", "failed"]


class Refusal(Exception):
    """A command that was not carried out; the text is one line for its sender."""

    def __init__(self, kind: Kind, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def refused(refusal: Refusal) -> dict[str, Any]:
    """The answer to a command that is refused."""
    return {"error": str(refusal), "kind": refusal.kind}


def call(path: Path, command: str, arguments: dict[str, Any]) -> Any:
    """Send a command and return its result. Refusal if the node refuses it; OSError if the node is unreachable or does
    not answer.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(CALL_SECONDS)
        connection.connect(str(path))
        with connection.makefile("rwb") as lines:
            lines.write(line({"command": command, "arguments": arguments}))
            lines.flush()
            answered = lines.readline()
    if not answered.endswith(b"\n"):
        raise ConnectionAbortedError("the node ended before it had answered")
    answer = json.loads(answered)
    if "error" in answer:
        raise Refusal(answer["kind"], answer["error"])
    return answer["result"]


def line(message: dict[str, Any]) -> bytes:
    """A message as one line of JSON."""
    return json.dumps(message).encode() + b"\n"


def parse_request(data: bytes) -> tuple[str, dict[str, Any]]:
    """Command and arguments of a line. Refusal if it is no request."""
    try:
        request = json.loads(data)
    except (ValueError, RecursionError):
        raise Refusal("invalid", "the request is not JSON") from None
    if SURROGATE in data.lower():
        _check_text(request)
    match request:
        case {"command": str(command), "arguments": dict(arguments)}:
            return command, arguments
    raise Refusal("invalid", 'the request is not {"command": …, "arguments": {…}}')


def _check_text(request: Any) -> None:
    """Refuse text with surrogates other than those that stand for bytes (PEP 383): nothing else could encode it."""
    try:
        json.dumps(request, ensure_ascii=False).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise Refusal("invalid", "the request has text in it that is not Unicode") from None
