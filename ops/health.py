"""The health of a node, check by check, without a request to any process but the client that one check is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import orjson

from ops.greeting import answers, greets
from ops.listeners import expiring, when
from ops.status import Status, collect, why_not_ready


class Check(NamedTuple):
    """The outcome of one check; `text` says what was found."""

    name: str
    passed: bool
    text: str


def checks(data: Path) -> list[Check]:
    """Check the node on `data`. NotRunning if there is none."""
    status = collect(data, measured=False)
    return [Check(name, *check(status)) for name, check in CHECKS.items()]


def _processes(status: Status) -> tuple[bool, str]:
    """Whether all processes are ready, and alive."""
    reason = why_not_ready(status)
    return reason is None, reason or f"{len(status.processes)} ready"


def _port(status: Status) -> tuple[bool, str]:
    """Whether a client that connects to the first listener gets connection.start. Those for proxies are not asked."""
    asked = next((each for each in status.node["listeners"] if not each["proxied"]), None)
    return (True, "not asked: all listeners are for proxies") if asked is None else greets(asked)


def _shards(status: Status) -> tuple[bool, str]:
    """Whether no shard holds all its producers, for lack of memory or disk."""
    holding = [f"shard {each['index']}: {each['reason']}" for each in status.processes if each.get("saturated")]
    return not holding, "; ".join(holding) or "none holds all its producers"


def _limits(status: Status) -> tuple[bool, str]:
    """Whether no limit is nearly used up."""
    near = [
        f"{each['limit']} of {each['whose']} {each['name']}".rstrip() + f", {each['used']} of {each['number']}"
        for each in status.limits
    ]
    return not near, "; ".join(near) or "none is nearly reached"


def _http(status: Status) -> tuple[bool, str]:
    """Whether each port of the HTTP interface answers."""
    found = [answers(port) for port in status.node["http"]]
    return all(passed for passed, _ in found), "; ".join(text for _, text in found) or "it is off"


def _certificates(status: Status) -> tuple[bool, str]:
    """Whether no certificate of a listener expires soon, or cannot be read."""
    found = [*status.node["listeners"], *status.node["http"]]
    problems = [f"{file} {when(left)}" for file, left in expiring(found)]
    unread = {each["file"] for listener in found for each in listener["certificates"] if each["seconds_left"] is None}
    problems += [f"{file} cannot be read" for file in sorted(unread)]
    count = len({each["file"] for listener in found for each in listener["certificates"]})
    return not problems, "; ".join(problems) or (f"{count} valid for a while" if count else "no listener has TLS")


CHECKS: dict[str, Callable[[Status], tuple[bool, str]]] = {
    "processes": _processes,
    "port": _port,
    "http": _http,
    "shards": _shards,
    "limits": _limits,
    "certificates": _certificates,
}


def as_json(found: list[Check]) -> str:
    """Return the outcomes as a JSON list."""
    return orjson.dumps([check._asdict() for check in found], option=orjson.OPT_INDENT_2).decode()


def lines(found: list[Check]) -> Iterator[str]:
    """Yield a line for each check."""
    for check in found:
        yield f"{'ok' if check.passed else 'FAILED':<7} {check.name:<12} {check.text}"
