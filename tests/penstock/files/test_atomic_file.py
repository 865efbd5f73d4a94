"""Records that a process keeps for its next incarnation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from penstock.files.atomic_file import AtomicFile, Records

values = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8"))
records = st.lists(st.dictionaries(st.text(st.characters(codec="utf-8")), values, max_size=3), max_size=4)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "made" / "stops.json"


@given(st.lists(records, min_size=1, max_size=4))
def test_the_last_records_are_read(tmp_path_factory: pytest.TempPathFactory, kept: list[Records]) -> None:
    path = tmp_path_factory.mktemp("kept") / "stops.json"
    file = AtomicFile(path, "stops")
    for each in kept:
        file.keep(each)
    assert AtomicFile(path, "stops").read() == kept[-1]


def test_there_are_none_at_first(path: Path) -> None:
    assert AtomicFile(path, "stops").read() == []
    AtomicFile(path, "stops").keep([])
    assert not path.exists()


def test_the_same_records_are_not_written_again(path: Path) -> None:
    AtomicFile(path, "stops").keep([{"queue": "q"}])
    file = AtomicFile(path, "stops")
    assert file.read() == [{"queue": "q"}]
    before = path.stat().st_ino
    file.keep([{"queue": "q"}])
    assert path.stat().st_ino == before
    file.keep([])
    assert path.read_bytes() == b"[]"


def test_a_name_need_not_be_utf_8(path: Path) -> None:
    AtomicFile(path, "stops").keep([{"queue": "caf\udce9"}])
    assert AtomicFile(path, "stops").read() == [{"queue": "caf\N{REPLACEMENT CHARACTER}"}]


@pytest.mark.parametrize("data", [b"", b"[", b"\xff", b'{"queue": "q"}'])
def test_what_is_not_a_list_of_records_cannot_be_read(path: Path, data: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"\w"):
        AtomicFile(path, "stops").read()


def test_a_failure_is_logged_once_and_the_next_call_tries_again(path: Path) -> None:
    path.parent.touch()
    file = AtomicFile(path, "stops")
    with capture_logs() as lines:
        file.keep([{"number": 1}])
        file.keep([{"number": 2}])
        path.parent.unlink()
        file.keep([{"number": 2}])
        assert AtomicFile(path, "stops").read() == [{"number": 2}]
        path.unlink()
        path.parent.rmdir()
        path.parent.touch()
        file.keep([{"number": 3}])
    assert [(each["event"], each["problem"]) for each in lines] == [("stops cannot be recorded", "File exists")] * 2


CUT = """
import resource, sys
from pathlib import Path
from penstock.files.atomic_file import AtomicFile
file = AtomicFile(Path(sys.argv[1]), "stops")
file.keep([{"number": 1}])
resource.setrlimit(resource.RLIMIT_FSIZE, (100, -1))
file.keep([{"number": 2, "text": "x" * 200}])
assert file.read() == [{"number": 1}]
"""


def test_a_disk_that_takes_only_a_part_leaves_the_records_before(path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", CUT, str(path)], check=True, capture_output=True, text=True)
    assert "stops cannot be recorded" in done.stdout + done.stderr
    assert AtomicFile(path, "stops").read() == [{"number": 1}]
