"""The node's identity in its data directory: what was stored, or an error."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from ops.store.identity import NAME, Identity, load, new_node, store
from penstock.files.witness import FOLDER

FOUND = Identity(12345, (11, 12))


def test_it_is_read_as_it_was_stored(tmp_path: Path) -> None:
    assert load(tmp_path) is None
    for identity in (FOUND, Identity(7, ())):
        store(tmp_path, identity)
        assert load(tmp_path) == identity
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == [NAME]


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    store(tmp_path, FOUND)
    path = tmp_path / FOLDER / NAME
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    store(tmp_path, FOUND)
    path = tmp_path / FOLDER / NAME
    data = path.read_bytes()
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(ValueError, match=r"."):
            load(tmp_path)
        path.write_bytes(data[:place])
        with pytest.raises(ValueError, match=r"."):
            load(tmp_path)


@pytest.mark.parametrize("fact", [{}, 7, [], [1, [2]], [1, [2], 3, 4], [1, [2], 3]])
def test_another_value_is_not_an_identity(tmp_path: Path, fact: object) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / NAME).write_bytes(orjson.dumps(fact))
    with pytest.raises(ValueError, match=r"^it is not what was written$"):
        load(tmp_path)


def test_a_write_that_fails_keeps_the_previous_one(tmp_path: Path) -> None:
    store(tmp_path, FOUND)
    (tmp_path / FOLDER / f"{NAME}.new").mkdir()
    with pytest.raises(IsADirectoryError):
        store(tmp_path, Identity(7, (13,)))
    assert load(tmp_path) == FOUND


def test_numbers_of_nodes_differ_and_fit_sqlite() -> None:
    numbers = {new_node() for _ in range(1000)}
    assert len(numbers) == 1000
    assert all(0 < number < 1 << 63 for number in numbers)
