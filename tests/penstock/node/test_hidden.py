"""A package that is hidden cannot be imported, for as long as it is."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

from penstock.node.hidden import hidden

PACKAGE = "colorsys"
"""A module of the standard library that nothing here imports."""


@pytest.fixture
def not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, PACKAGE, raising=False)


@pytest.mark.usefixtures("not_imported")
def test_a_hidden_package_cannot_be_imported() -> None:
    with hidden(PACKAGE), pytest.raises(ModuleNotFoundError):
        import_module(PACKAGE)
    assert import_module(PACKAGE).__name__ == PACKAGE


@pytest.mark.usefixtures("not_imported")
def test_a_package_that_has_been_imported_stays() -> None:
    before = import_module(PACKAGE)
    with hidden(PACKAGE):
        assert import_module(PACKAGE) is before
    assert sys.modules[PACKAGE] is before
