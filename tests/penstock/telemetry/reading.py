"""Telemetry read back, and checked against the declared tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import zstandard

from penstock.telemetry.layout import SUFFIX, FileName, partition
from penstock.telemetry.schema import TABLES, Type

Row = dict[str, Any]


def _whole_number(bits: int) -> Callable[[object], bool]:
    return lambda value: type(value) is int and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)


FITS: dict[Type, Callable[[object], bool]] = {
    "bigint": _whole_number(64),
    "int": _whole_number(32),
    "smallint": _whole_number(16),
    "double": lambda value: isinstance(value, float),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
}


def lines(path: Path) -> list[bytes]:
    """Return the lines of one file; AssertionError unless it is whole frames of whole lines."""
    with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as reader:
        text = reader.read()
    assert text.endswith(b"\n")
    return text.splitlines()


def visible(root: Path, table: str) -> list[Path]:
    """Return the files of a table that readers see."""
    return sorted(root.glob(f"{table}/v=1/dt=*/hour=*/[!._]*{SUFFIX}"))


def rows(root: Path, table: str) -> list[Row]:
    """Return all rows of a table in files that readers see, by time. AssertionError if one is not as declared, or in
    the wrong file.
    """
    found: list[Row] = []
    for path in visible(root, table):
        name = FileName.parse(path.name)
        assert name is not None and name.finished
        of_it = [orjson.loads(line) for line in lines(path)]
        for row in of_it:
            check(table, row)
            assert (row["node"], row["writer"]) == (name.node, name.process)
            assert path.parent == partition(root, table, row["ts"] // 3_600_000_000)
        found += of_it
    return sorted(found, key=lambda row: (row["ts"], row["writer"], row["seq"]))


def check(table: str, row: Row) -> None:
    """Raise AssertionError unless a row has the columns of its table, each of its type."""
    columns = TABLES[table].columns
    assert row.keys() == {column.name for column in columns}
    for column in columns:
        value = row[column.name]
        assert column.nullable if value is None else FITS[column.type](value), (column.name, value)


def check_none_is_missing(found: list[Row]) -> None:
    """Raise AssertionError if there is a gap in a writer's numbers."""
    numbers: dict[tuple[int, str], list[int]] = {}
    for row in found:
        assert row["rows_lost"] == 0
        numbers.setdefault((row["epoch"], row["writer"]), []).append(row["seq"])
    for seen in numbers.values():
        assert sorted(seen) == list(range(1, len(seen) + 1))
