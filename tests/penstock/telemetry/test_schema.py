"""The declared tables: names, types, and the parts that no later version may change."""

from __future__ import annotations

import hashlib
import subprocess
import sys

from penstock.telemetry.schema import COMMON, TABLES, TYPES, VERSION

DECLARED = {"depth": 30, "flow": 33, "shard": 28, "connection": 19, "placement": 16}
"""Columns of version 1; more may follow them."""
DIGEST = "4a2177435b66f2a3b43825b55f0e5d828b24ba7075db7bd30c714011299a2f59"


def test_tables_have_distinct_names_and_known_types() -> None:
    for name, table in TABLES.items():
        assert table.name == name
        names = [column.name for column in table.columns]
        assert len(set(names)) == len(names)
        assert {column.type for column in table.columns} <= set(TYPES)
        assert table.columns[: len(COMMON)] == COMMON
        assert all(column.meaning for column in table.columns)


def test_what_readers_know_of_version_1_stays() -> None:
    """Nullable columns may be added at the end; any other change makes another version."""
    assert VERSION == 1
    known = hashlib.sha256()
    for name, count in DECLARED.items():
        columns = TABLES[name].columns
        known.update(repr([(column.name, column.type, column.nullable) for column in columns[:count]]).encode())
        assert all(column.nullable for column in columns[count:])
    assert known.hexdigest() == DIGEST


def test_a_reader_needs_nothing_else() -> None:
    """Importing the schema imports no library: readers run where the broker is not installed."""
    program = "import sys, penstock.telemetry.schema; print(*sorted(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    found = {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names)
    assert {name for name in found if not name.startswith(("_", "sitecustomize"))} == {"penstock"}
