"""Hides an installed package from a library that would import it without need."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import cast


@contextmanager
def hidden(package: str) -> Iterator[None]:
    """Let imports of a package fail with ModuleNotFoundError within the block, unless it has been imported before."""
    modules = cast(dict[str, ModuleType | None], sys.modules)
    if package in modules:
        yield
        return
    modules[package] = None  # the import system's own mark of a module that cannot be imported
    try:
        yield
    finally:
        del modules[package]
