"""Which extension modules would run uncompiled: correct, and a hundred times too slow to serve."""

from __future__ import annotations

import importlib.util
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

PACKAGES = ("penstock", "router", "shard", "acceptor")


def extension_modules() -> list[str]:
    """Names of the modules that are written to be compiled."""
    names = []
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            root = Path(folder)
            sources = [*root.rglob("*_cy.py"), *root.rglob("*.pyx")]
            names += [".".join((package, *path.relative_to(root).with_suffix("").parts)) for path in sources]
    return sorted(names)


def uncompiled() -> list[str]:
    """Names of those Python would load from their source, or not find at all."""
    return [name for name in extension_modules() if not _is_compiled(name)]


def _is_compiled(name: str) -> bool:
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is not None and spec.origin.endswith(tuple(EXTENSION_SUFFIXES))
