"""Records in a file of bounded size."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from penstock.files.record_file import RecordFile, read_records


def test_the_newest_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "made" / "incidents.jsonl"
    file = RecordFile(path, limit=1000)
    for number in range(500):
        file.append([{"number": number}])
    kept = [record["number"] for record in read_records(path)]
    assert kept == list(range(kept[0], 500)) and 50 < len(kept) < 200
    assert sum(each.stat().st_size for each in path.parent.iterdir()) < 2100


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "incidents.jsonl"
    RecordFile(path).append([{"number": 1}, {"number": 2}])
    path.write_bytes(path.read_bytes()[:-3] + b"\n")
    assert [record["number"] for record in read_records(path)] == [1]


def test_what_cannot_be_written_is_lost_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    RecordFile(tmp_path / "file" / "incidents.jsonl").append([{"number": 1}])
    assert not list(read_records(tmp_path / "none"))


def test_a_name_need_not_be_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "incidents.jsonl"
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    RecordFile(path).append([{"queue": name, "victims": [{"user": name}], "actions": {name: 1}}])
    (record,) = read_records(path)
    assert record["queue"] == record["victims"][0]["user"] == "caf\N{REPLACEMENT CHARACTER}"


CUT = """
import resource, sys
from pathlib import Path
from penstock.files.record_file import RecordFile
file = RecordFile(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (100, -1))
assert file.append([{"number": 1}])
assert not file.append([{"number": 2, "text": "x" * 200}])
assert file.append([{"number": 3}])
"""


def test_what_the_disk_takes_in_part_spoils_nothing(tmp_path: Path) -> None:
    path = tmp_path / "incidents.jsonl"
    subprocess.run([sys.executable, "-c", CUT, str(path)], check=True, capture_output=True)
    assert [record["number"] for record in read_records(path)] == [1, 3]
