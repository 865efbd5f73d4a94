"""What a check of the surroundings has found."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Level(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    ADVICE = "advice"
    """The node serves, but less well, or less safely, than it could."""
    PROBLEM = "PROBLEM"
    """The node does not start, fails under load, or may lose what it has confirmed."""


class Finding(NamedTuple):
    """The finding of one check. `remedy` is what to do about it, a command where there is one; "" with OK."""

    check: str
    level: Level
    text: str
    remedy: str = ""


def ok(check: str, text: str) -> Finding:
    """Return that all is well."""
    return Finding(check, Level.OK, text)


def advice(check: str, text: str, remedy: str) -> Finding:
    """Return what could be better."""
    return Finding(check, Level.ADVICE, text, remedy)


def problem(check: str, text: str, remedy: str) -> Finding:
    """Return what must not stay."""
    return Finding(check, Level.PROBLEM, text, remedy)
