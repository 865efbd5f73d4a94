"""Lines of live files as columns, by Arrow.

A node writes no blanks, and the same columns in the same order in each line of a file. So cutting at the commas gives
the columns, of cells like `"ready":17`. Each cell is checked; lines that break the pattern, perhaps by a comma in a
queue's name, are read by Arrow's JSON reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

CHUNK: Final = 4 << 20
"""Bytes of lines that are converted at once."""
TO_THE_END: Final = 1 << 30
KEY: Final = re.compile(rb'[{,]"(\w+)":')

_CUT: Final = pyarrow.csv.ParseOptions(delimiter=",", quote_char=False, escape_char=False)


class OddError(Exception):
    """A file has lines that do not fit, is truncated, or is not zstd."""


def tables(data: bytes, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows of a compressed file in order. Missing columns are null, unknown ones are left out. OddError."""
    source = pa.CompressedInputStream(pa.BufferReader(data), "zstd")
    rest = b""
    while True:
        try:
            read = source.read(CHUNK)
        except OSError as error:
            raise OddError from error
        lines = rest + read
        end = lines.rfind(b"\n") + 1 if read else len(lines)
        if end:
            yield columns(lines[:end], schema)
        if not read:
            return
        rest = lines[end:]


def columns(lines: bytes, schema: pa.Schema) -> pa.Table:
    """Convert whole lines to columns. OddError if a line does not fit."""
    try:
        if not lines.isascii():
            lines.decode()
    except UnicodeDecodeError as error:
        raise OddError from error
    try:
        return cut(lines, schema)
    except (OddError, pa.ArrowInvalid):
        read = pyarrow.json.ReadOptions(use_threads=False, block_size=len(lines) + 1)
        parse = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    try:
        return pyarrow.json.read_json(pa.BufferReader(lines), read, parse).select(schema.names)
    except pa.ArrowInvalid as error:
        raise OddError from error


def cut(lines: bytes, schema: pa.Schema) -> pa.Table:
    """Convert lines that all have the form of the first one. OddError or ArrowInvalid if one differs."""
    names = [name.decode() for name in KEY.findall(lines[: lines.find(b"\n")])]
    if not names or b"\\" in lines or len(set(names)) < len(names) or not set(names) <= set(schema.names):
        raise OddError
    read = pyarrow.csv.ReadOptions(use_threads=False, column_names=names, block_size=len(lines) + 1)
    convert = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.binary()), check_utf8=False, strings_can_be_null=False
    )
    found = pyarrow.csv.read_csv(pa.BufferReader(lines), read, _CUT, convert)
    rows, texts, made = found.num_rows, 0, {}
    for number, name in enumerate(names):
        cells = found.column(number)
        head = b'%b"%b":' % (b"{" if number == 0 else b"", name.encode())
        _check(pc.starts_with(cells, head))
        if number == len(names) - 1:
            _check(pc.ends_with(cells, b"}"))
            cells = pc.binary_slice(cells, 0, -1)
        made[name] = values(pc.binary_slice(cells, len(head), TO_THE_END), schema.field(name).type)
        texts += rows - made[name].null_count if made[name].type == pa.string() else 0
    if lines.count(b'"') != 2 * (rows * len(names) + texts):  # a quote within a text
        raise OddError
    return pa.table([made.get(field.name, pa.nulls(rows, field.type)) for field in schema], schema)


def values(cells: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Convert cells to values. OddError or ArrowInvalid if a cell is no value of that type."""
    null = pc.equal(cells, b"null")
    if pc.any(null, min_count=0).as_py():
        cells = pc.if_else(null, pa.scalar(None, pa.binary()), cells)
    if kind == pa.string():
        _check(pc.and_(pc.starts_with(cells, b'"'), pc.ends_with(cells, b'"')))
        _check(pc.greater(pc.binary_length(cells), 1))
        return pc.binary_slice(cells, 1, -1).cast(kind)
    if kind == pa.bool_():
        true = pc.equal(cells, b"true")
        _check(pc.or_(true, pc.equal(cells, b"false")))
        return true
    return cells.cast(pa.string()).cast(kind)


def _check(holds: pa.ChunkedArray) -> None:
    """Raise OddError unless a condition holds for all values that are not null."""
    if not pc.all(holds, min_count=0).as_py():
        raise OddError
