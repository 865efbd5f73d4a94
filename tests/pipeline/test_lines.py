"""Lines as columns: as Spark reads them, or reported as odd."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
import zstandard

from pipeline import lines
from pipeline.lines import OddError, columns, cut, tables
from pipeline.parts import plain
from tests.pipeline import live
from tests.pipeline.day import Day
from tests.pipeline.tables import Row

pytestmark = pytest.mark.long

DEPTH = plain("depth")


def dumped(rows: list[Row]) -> bytes:
    """Return rows as lines, as a node writes them."""
    return b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows)


@pytest.mark.parametrize("table", ["depth", "shard", "connection", "flow"])
def test_lines_are_cut_as_a_parser_reads_them(day: Day, table: str) -> None:
    rows = getattr(day, table)
    assert cut(dumped(rows), plain(table)).to_pylist() == rows
    assert columns(live.lines(rows), plain(table)).to_pylist() == rows  # lines with blanks are not cut


@pytest.mark.parametrize("name", ["a,b", 'a"b', "a\\b", 'x","seq":5,"y', "é", "", "null", "{}", "a:b"])
def test_names_of_all_sorts_are_read(day: Day, name: str) -> None:
    rows = [{**row, "queue": name if number % 3 == 0 else row["queue"]} for number, row in enumerate(day.depth[:9])]
    assert columns(dumped(rows), DEPTH).to_pylist() == rows


def test_columns_may_lack_and_there_may_be_more(day: Day) -> None:
    rows = [{**row, "policy": None, "delivered_bytes": None} for row in day.depth[:5]]
    fewer = [{name: value for name, value in row.items() if value is not None} for row in rows]
    assert columns(dumped(fewer), DEPTH).to_pylist() == rows
    assert columns(dumped([fewer[0], rows[1]]), DEPTH).to_pylist() == rows[:2]
    assert columns(dumped([{**row, "later": "x"} for row in rows]), DEPTH).to_pylist() == rows


@pytest.mark.parametrize(
    "wrong",
    [{"ready": "many"}, {"ts": 1.5}, {"saturated": 1}, {"queue": 7}, {"consumers": 2**40}, {"queue": ["a"]}],
)
def test_rows_that_do_not_fit_are_odd(day: Day, wrong: Row) -> None:
    with pytest.raises(OddError):
        columns(dumped([day.depth[0], {**day.depth[1], **wrong}]), DEPTH)


@pytest.mark.parametrize("text", [b'{"v":1,"ts":', b"nothing\n", b'["v"]\n', b'{"v":1,"queue":"\xff"}\n', b"7\n"])
def test_what_is_no_row_is_odd(text: bytes) -> None:
    with pytest.raises(OddError):
        columns(text, DEPTH)


def test_files_are_read_in_chunks_and_frames(day: Day, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "CHUNK", 2000)
    middle = len(day.depth) // 2
    data = b"".join(zstandard.compress(dumped(part)) for part in (day.depth[:middle], day.depth[middle:]))
    found = list(tables(data, DEPTH))
    assert len(found) > 10
    assert pa.concat_tables(found).to_pylist() == day.depth
    assert list(tables(b"", DEPTH)) == []
    for damaged in (data[:-20], b"this is no zstd", zstandard.compress(dumped(day.depth)[:-30])):
        with pytest.raises(OddError):
            list(tables(damaged, DEPTH))
