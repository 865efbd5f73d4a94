"""Finds extension modules that would run uncompiled: correct, but a hundred times too slow to serve."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

PACKAGES = ("penstock", "router", "shard", "acceptor")


def extension_modules() -> list[str]:
    """Return the names of the modules that are written to be compiled."""
    return sorted(name for name, _ in _sources())


def uncompiled() -> list[str]:
    """Return the names of the modules that Python would load from source or not find, without importing them."""
    return sorted(name for name, source in _sources() if not _is_compiled(source))


def refusal() -> str | None:
    """Return the reason why this checkout cannot serve, in one line; None if it can."""
    missing = uncompiled()
    return f"not compiled, run `make setup`: {', '.join(missing)}" if missing else None


def _sources() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            root = Path(folder)
            for source in (*root.rglob("*_cy.py"), *root.rglob("*.pyx")):
                yield ".".join((package, *source.relative_to(root).with_suffix("").parts)), source


def _is_compiled(source: Path) -> bool:
    """Whether the compiled module lies beside its source, where Python prefers it."""
    return any(source.with_suffix(suffix).exists() for suffix in EXTENSION_SUFFIXES)
