"""The tables of all answers: every job has its own, and the documentation has the same order."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from penstock.telemetry import schema
from penstock.telemetry.schema import Table
from pipeline import jobs
from pipeline.answers import TABLES

DOCUMENTATION = Path(__file__).resolve().parents[2] / "docs" / "pipeline-answers.md"


def test_every_table_that_a_job_declares_is_an_answer() -> None:
    modules = [importlib.import_module(f"{jobs.__name__}.{each.name}") for each in pkgutil.iter_modules(jobs.__path__)]
    declared = {table.name for module in modules for table in vars(module).values() if isinstance(table, Table)}
    assert {table.name for table in TABLES} == declared - schema.TABLES.keys()


def test_no_name_is_used_twice() -> None:
    names = [table.name for table in TABLES]
    assert len(set(names)) == len(names)
    for table in TABLES:
        columns = [column.name for column in table.columns]
        assert len(set(columns)) == len(columns), table.name


def test_the_documentation_has_them_in_this_order() -> None:
    headings = [line.strip("# `") for line in DOCUMENTATION.read_text().splitlines() if line.startswith("## ")]
    assert [name for name in headings if name in {table.name for table in TABLES}] == [table.name for table in TABLES]
