"""Rows in shared memory: found by name, scanned, and locked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.memory.shared_rows import NAME, SETS, WAYS, SharedRows, Use, create, row_name

CONTENT = 8


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "rows"
    create(path, CONTENT)
    return path


def first(places: list[int]) -> int:
    return places[0]


def test_a_row_is_made_once_and_every_process_finds_it(path: Path) -> None:
    one, two = SharedRows.open(path, CONTENT), SharedRows.open(path, CONTENT)
    name = row_name("max-queues", "user", "a b \udcff")
    assert one.find(name) is None
    at = one.make(name, first)
    assert at is not None and one.memory[at : at + CONTENT] == bytes(CONTENT)
    one.memory[at : at + CONTENT] = b"content!"
    assert two.find(name) == two.make(name, lambda places: None) == at
    assert two.memory[at : at + CONTENT] == b"content!"
    assert two.name(at) == ("max-queues", "user", "a b \udcff")


def test_a_row_that_nobody_gives_a_place_is_not_made() -> None:
    rows = SharedRows.of_process(CONTENT)
    assert rows.make("a", lambda places: None) is None and rows.find("a") is None


def test_a_new_name_takes_the_place_and_the_content_stays() -> None:
    rows = SharedRows.of_process(CONTENT)
    places: list[int] = []

    def choose(found: list[int]) -> int:
        places.extend(found)
        return found[3]

    old = row_name("x", "user", "a")
    at = rows.make(old, choose)
    assert at == places[3] and len(places) == len(set(places)) == WAYS
    rows.memory[at : at + CONTENT] = b"content!"
    number = next(n for n in range(100_000) if _place_of(rows, f"x user {n}") == places)
    new = row_name("x", "user", str(number))
    assert rows.make(new, choose) == at and rows.find(new) == at and rows.find(old) is None
    assert rows.name(at) == ("x", "user", str(number)) and rows.memory[at : at + CONTENT] == b"content!"


def _place_of(rows: SharedRows, name: str) -> list[int]:
    """Return the places that a name may take."""
    found: list[int] = []

    def check(places: list[int]) -> None:
        found.extend(places)

    rows.make(name, check)
    return found


@given(st.dictionaries(st.text(max_size=30), st.binary(min_size=CONTENT, max_size=CONTENT), max_size=WAYS))
def test_rows_do_not_touch_each_other(contents: dict[str, bytes]) -> None:
    rows = SharedRows.of_process(CONTENT)
    made: dict[str, int] = {}
    for name, content in contents.items():
        at = rows.make(
            row_name("limit", "user", name), lambda places: next(p for p in places if p not in made.values())
        )
        assert at is not None
        made[name] = at
        rows.memory[at : at + CONTENT] = content
    for name, content in contents.items():
        at = rows.find(row_name("limit", "user", name))
        assert at == made[name] and rows.memory[at : at + CONTENT] == content
        assert rows.name(at) == ("limit", "user", name)
    assert {at for at in rows.all() if rows.name(at)} == set(made.values())
    rows.memory.close()


def test_a_scan_sees_all_rows() -> None:
    rows = SharedRows.of_process(CONTENT)
    found = list(rows.all())
    assert len(found) == len(set(found)) == SETS * WAYS
    assert {rows.make(str(number), first) for number in range(50)} <= set(found)


def test_a_name_that_is_too_long_is_found_and_not_shown() -> None:
    rows = SharedRows.of_process(CONTENT)
    room = NAME.size - 2 - len(row_name("x", "user", ""))
    longest, longer = (row_name("x", "user", "é" * (room // 2) + "a" * (room % 2 + more)) for more in (0, 1))
    assert (at := rows.make(longest, first)) is not None and rows.name(at) == tuple(longest.split(" ", 2))
    assert (at := rows.make(longer, first)) is not None and rows.find(longer) == at and rows.name(at) is None


def test_a_row_that_is_being_renamed_has_no_name() -> None:
    rows = SharedRows.of_process(CONTENT)
    at = rows.make(row_name("x", "user", "a"), first)
    assert at is not None
    rows.memory[at - 1] ^= 1  # its digest is already another name's
    assert rows.name(at) is None


def test_those_who_only_look_cannot_change_anything(path: Path) -> None:
    at = SharedRows.open(path, CONTENT).make("x user a", first)
    checking = SharedRows.open_readonly(path, CONTENT)
    assert checking.find("x user a") == at
    with pytest.raises(TypeError):
        checking.make("x user b", first)


def test_the_file_is_made_once_for_its_owner(path: Path, tmp_path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        create(path, CONTENT)
    with pytest.raises(FileNotFoundError):
        SharedRows.open(tmp_path / "none", CONTENT)
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match=r"\w"):
        SharedRows.open(tmp_path / "empty", CONTENT)


DIES = """
import os, sys
from pathlib import Path
from penstock.memory.shared_rows import SharedRows
rows = SharedRows.open(Path(sys.argv[1]), 8)
with rows.locked():
    print("locked", flush=True)
    sys.stdin.readline()
    os._exit(0)
"""
TRIES = """
import fcntl, sys
with open(sys.argv[1]) as file:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
"""


def test_a_lock_keeps_others_out_until_its_process_dies(path: Path) -> None:
    def try_lock() -> bool:
        tried = subprocess.run([sys.executable, "-c", TRIES, str(path)], capture_output=True, text=True)
        assert tried.returncode == 0 or "BlockingIOError" in tried.stderr
        return tried.returncode == 0

    with subprocess.Popen(
        [sys.executable, "-c", DIES, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout and holder.stdout.readline() == "locked\n"
        assert not try_lock()
        holder.communicate("\n")
    rows = SharedRows.open(path, CONTENT)
    with rows.locked():
        assert not try_lock()
    assert try_lock()


@pytest.mark.parametrize(
    ("used", "number", "near"),
    [(0, 0, False), (1, 0, True), (89, 100, False), (90, 100, True), (9, 10, True), (0, 5, False)],
)
def test_nine_tenths_of_a_limit_are_near(used: int, number: int, near: bool) -> None:
    assert Use("max-queues", "vhost", "/", used, number).is_near is near
