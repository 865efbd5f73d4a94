"""Who may import whom (the contracts in pyproject.toml), and that what is imported is this checkout."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).resolve().parents[1]
PURE_PARTS = {
    "fields",
    "matching",
    "placement",
    "policies",
    "policy_keys",
    "records",
    "shared_limits",
    "topology",
    "users",
}
"""Of the router: what acceptors and shards use to follow and to route, without socket, file or authority."""
PACKAGES = ["penstock", "router", "shard", "acceptor", "load", "ops"]


def test_imports_run_the_way_the_design_says(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    status = lint_imports(cache_dir=None)
    assert status == 0, capsys.readouterr().out


def test_every_package_is_under_a_contract() -> None:
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert linter["root_packages"] == PACKAGES
    sources = {source for contract in linter["contracts"] for source in contract["source_modules"]}
    assert sources == set(PACKAGES) - {"ops"}


@pytest.mark.parametrize("follower", ["shard", "acceptor"])
def test_every_module_of_the_router_is_pure_or_under_the_contracts(follower: str) -> None:
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = [contract for contract in linter["contracts"] if contract["source_modules"] == [follower]]
    own = {name.removeprefix("router.") for name in contract["forbidden_modules"] if name.startswith("router.")}
    modules = {path.stem for path in (ROOT / "router").glob("*.py")} - {"__init__"}
    assert modules == own | PURE_PARTS


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_are_this_checkout(package: str) -> None:
    module = importlib.import_module(package)
    assert module.__file__
    assert Path(module.__file__).resolve() == ROOT / package / "__init__.py"
