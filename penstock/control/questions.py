"""Questions that a process answers about itself over its control socket, without changes and without
other processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.control.control import Refusal, refused
from penstock.node.logs import get_logger

log = get_logger()

Question = tuple[Callable[..., Any], dict[str, type]]
"""The function that answers, and its arguments with their types."""


def answer(questions: Mapping[str, Question], name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The answer as sent over the socket (`penstock.control.control`); a refusal if there is no such question."""
    try:
        return {"result": _result(questions, name, arguments)}
    except Refusal as refusal:
        return refused(refusal)


def check_arguments(name: str, wanted: Mapping[str, type], arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that are not the wanted ones, each of its type."""
    if arguments.keys() != wanted.keys() or not all(isinstance(arguments[each], wanted[each]) for each in wanted):
        raise Refusal("invalid", f"{name} takes {', '.join(wanted) or 'no arguments'}")


def _result(questions: Mapping[str, Question], name: str, arguments: dict[str, Any]) -> Any:
    if name not in questions:
        raise Refusal("invalid", f"unknown command {name!r}")
    ask, wanted = questions[name]
    check_arguments(name, wanted, arguments)
    try:
        return ask(**arguments)
    except Refusal:
        raise
    except Exception:
        log.exception("question failed", question=name)
        raise Refusal("failed", f"{name} failed, the log has more") from None
