"""Loads the uncompiled twin of a compiled module, to run beside it.

Both have the same source, `*_cy.py`. The uncompiled twin checks every bound, so a test that compares the two finds
reads and writes of the compiled one outside its buffers.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import GetSetDescriptorType, ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent

_loaded: dict[str, ModuleType] = {}


def load_plain(name: str) -> ModuleType:
    """Return the module `name` (`package.some_cy`), loaded from its source.

    Other `_cy` modules that it imports are plain too. All other code still uses the compiled ones.
    """
    if name not in _loaded:
        source = ROOT / f"{name.replace('.', '/')}.py"
        module = ModuleType(name)
        module.__file__ = str(source)
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": _import}
        exec(compile(source.read_text(), source, "exec", dont_inherit=True), module.__dict__)
        _loaded[name] = module
    return _loaded[name]


def load_compiled(name: str) -> ModuleType:
    """Return the module `name` as built. AssertionError if it was not built, or built without its `.pxd`."""
    module = import_module(name)
    assert str(module.__file__).endswith(tuple(EXTENSION_SUFFIXES)), f"{name} is not compiled"
    typed = hasattr(module, "__pyx_capi__") or any(map(_is_typed, vars(module).values()))
    assert typed, f"{name} was compiled without its .pxd"
    return module


def _is_typed(value: Any) -> bool:
    """Whether a value is a class with C methods or C fields."""
    fields = vars(value).items() if isinstance(value, type) else ()
    return hasattr(value, "__pyx_vtable__") or any(
        isinstance(field, GetSetDescriptorType) and not name.startswith("__") for name, field in fields
    )


def _import(
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    if name.endswith("_cy"):
        assert fromlist, f"say `from {name} import ...`"
        return load_plain(name)
    return __import__(name, globals, locals, fromlist or (), level)


# For tests of modules that work together: `load` loads all of them compiled, or all of them plain.
both_ways = pytest.mark.parametrize("load", [load_compiled, load_plain], ids=["compiled", "plain"])
