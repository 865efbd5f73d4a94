"""Rules for imports: the contracts in pyproject.toml, the only reader of a clock in the router, packages from this
checkout.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.house import modules_of

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ["penstock", "router", "shard", "acceptor", "console", "load", "ops", "pipeline", "pyspark_penstock"]


def test_imports_run_the_way_the_design_says() -> None:
    """Run in a process of its own, because import-linter configures logging for good and would silence other tests."""
    program = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(cache_dir=None))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def contracts() -> list[dict[str, Any]]:
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert linter["root_packages"] == PACKAGES
    found: list[dict[str, Any]] = linter["contracts"]
    return found


def test_every_package_is_under_a_contract() -> None:
    sources = {source for contract in contracts() for source in contract.get("source_modules", ())}
    assert sources == set(PACKAGES) - {"ops"}


def test_only_the_shell_of_the_router_reads_a_clock() -> None:
    """All other modules are passed a `Clock`, so that a test or a simulation sets the time."""
    clock = "penstock.node.clock"
    functions = {f"{clock}.{name}" for name in vars(importlib.import_module(clock)) if name != "Clock"}
    readers = {"time", "datetime", "penstock.node", *functions} - {clock}
    found = {module.name for module in modules_of(["router"]) if module.imported({clock, *readers}) & readers}
    assert found == {"router.process"}


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_are_this_checkout(package: str) -> None:
    module = importlib.import_module(package)
    assert module.__file__
    assert Path(module.__file__).resolve() == ROOT / package / "__init__.py"
