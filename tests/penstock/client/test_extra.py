"""Programs without the libraries that a client is built on."""

from __future__ import annotations

import subprocess
import sys

import pytest

import penstock.client
from penstock.client.extra import needs_extra

WITHOUT = """
import sys
for name in {names!r}:
    sys.modules[name] = None  # not to be found
{program}
"""
IMPORTS = [
    ("from penstock.client import Producer", ("pika",), "pika is not installed: pip install 'penstock[client]'"),
    ("import penstock.client.producer", ("pika",), "pika is not installed: pip install 'penstock[client]'"),
    ("import penstock.client.aio", ("aiormq", "pika"), "aiormq is not installed: pip install 'penstock[client]'"),
    ("import penstock.client.kombu", ("amqp", "kombu"), "amqp is not installed: pip install 'penstock[kombu]'"),
]


def run(program: str, names: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Run a program in an interpreter that does not find the modules `names`."""
    command = [sys.executable, "-c", WITHOUT.format(names=names, program=program)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("program", "names", "text"), IMPORTS)
def test_an_import_names_the_extra(program: str, names: tuple[str, ...], text: str) -> None:
    ended = run(program, names)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == f"ImportError: {text}"
    assert "ModuleNotFoundError" not in ended.stderr


def test_each_client_needs_its_own_libraries_only() -> None:
    for program, names in (("import penstock.client.kombu", ("pika", "aio_pika", "aiormq")),
                           ("from penstock.client import Producer", ("kombu", "amqp", "aiormq"))):  # fmt: skip
        assert run(program, names).returncode == 0


def test_a_missing_module_of_our_own_is_a_bug() -> None:
    with pytest.raises(ModuleNotFoundError), needs_extra("client"):
        import penstock.client.nothing  # type: ignore[import-not-found]  # noqa: F401


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Consumer'"):
        _ = penstock.client.Consumer
