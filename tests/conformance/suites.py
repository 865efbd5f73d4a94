"""The contents of `suites.toml`: the suites, where each comes from, how it is run, which tests are left out."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("suites.toml")


@dataclass(frozen=True)
class LeftOut:
    """Tests that are not run, and why. `tests` are pytest's node ids, or whole files; `*` stands for anything."""

    tests: tuple[str, ...]
    reason: str

    def patterns(self) -> list[str]:
        """Return the tests as regular expressions for the whole node id; an id without parameters names all of them."""
        return [re.escape(test).replace(r"\*", ".*") + r"(\[.*)?" for test in self.tests]


@dataclass(frozen=True)
class Suite:
    """One suite. `origin` is "index" (sdist of a Python package index) or "debian" (source package)."""

    name: str
    origin: str
    package: str
    version: str
    files: tuple[str, ...]
    """Arguments of pytest, relative to the root of the source."""
    requires: tuple[str, ...] = ()
    """Further packages in the suite's environment, as pip names them."""
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables; {host}, {port}, {docker} and {redis} are filled in."""
    minutes: int = 10
    left_out: tuple[LeftOut, ...] = ()


def load() -> list[Suite]:
    """Return all suites, in the order of the file. TypeError for an unknown key."""
    return [_suite(name, dict(table)) for name, table in tomllib.loads(FILE.read_text()).items()]


def _suite(name: str, table: dict[str, Any]) -> Suite:
    left_out = tuple(LeftOut(tuple(entry.pop("tests")), **entry) for entry in table.pop("left_out", []))
    lists = {key: tuple(table.pop(key)) for key in ("files", "requires", "options") if key in table}
    return Suite(name, left_out=left_out, **lists, **table)
