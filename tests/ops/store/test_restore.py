"""A dump is restored into a new data directory as a whole or not at all. The round trip is in test_dump.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.errors import CommandError
from ops.store.dump import dump, stored_topology
from ops.store.restore import restore
from penstock.bus import pack, unpack_stream
from penstock.files import kept_clock
from tests.ops.store.dumping import eventful, everything, with_topology


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir()
    with_topology(path)
    eventful(path)
    return path


def test_the_node_goes_on_with_its_clock(data: Path, tmp_path: Path) -> None:
    noted = kept_clock.Noted("a boot", 1, 2, 3)
    kept_clock.write(data, noted)
    dump(data, tmp_path / "dump")
    (data / kept_clock.FILE_NAME).unlink()
    dump(data, tmp_path / "other")
    for file, expected in (("dump", noted), ("other", None)):
        copy = tmp_path / f"copy of {file}"
        copy.mkdir()
        kept_clock.write(copy, kept_clock.Noted("another boot", 4, 5, 6))
        restore(tmp_path / file, copy)
        assert kept_clock.read(copy) == expected
    (data / kept_clock.FILE_NAME).write_text("{}")
    with pytest.raises(CommandError, match=r"clock.json cannot be read: it has no clock readings"):
        dump(data, tmp_path / "third")


def test_an_older_dump_does_not_say_who_declared_what(data: Path, tmp_path: Path) -> None:
    dump(data, tmp_path / "dump")
    with (tmp_path / "dump").open("rb") as file:
        magic, *items = unpack_stream(file, 1 << 20)
    older = [["topology", item[1][:-1]] if item[0] == "topology" and item[1][0] == "queue" else item for item in items]
    assert older != items
    (tmp_path / "older").write_bytes(b"".join(map(pack, [["penstock dump", 1, magic[2]], *older])))
    copy = tmp_path / "copy"
    copy.mkdir()
    restore(tmp_path / "older", copy)
    queues = [change for change in stored_topology(copy).changes if change[0] == "queue"]
    assert queues and all(change[-1] is None for change in queues)
    assert [change[:-1] for change in queues] == [item[1] for item in older if item[0] == "topology"
                                                  and item[1][0] == "queue"]  # fmt: skip
    assert everything(copy) == everything(data)


def test_what_is_not_empty_is_refused(data: Path, tmp_path: Path) -> None:
    dump(data, tmp_path / "dump")
    with pytest.raises(CommandError, match=f"^{data} is not empty$"):
        restore(tmp_path / "dump", data)
    with pytest.raises(CommandError, match=f"^{tmp_path}/dump exists already$"):
        dump(data, tmp_path / "dump")
    assert everything(data)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "is not a dump$"),
        (b"hello", "is not a dump$"),
        (pack(["penstock dump", 3, {}]), "is a dump of version 3, this penstock knows versions 1 to 2$"),
        (pack(["penstock dump", 1, {}]), "its end is missing"),
        (pack(["penstock dump", 1, {}]) + pack(["end", 5]), "it has 0 messages instead of 5"),
        (pack(["penstock dump", 1, {}]) + pack(["what", 5]), "it has a 'what'"),
        (pack(["penstock dump", 1, {}]) + pack(7), "damaged"),
        (pack(["penstock dump", 1, {}]) + b"\xc1", "damaged"),
        (pack(["penstock dump", 1, {}]) + pack(["message", 1]), "damaged"),
        (pack(["penstock dump", 1, {}]) + pack(["end", 0]), "damaged"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, content: bytes, text: str) -> None:
    file, data = tmp_path / "file", tmp_path / "data"
    data.mkdir()
    file.write_bytes(content)
    with pytest.raises(CommandError, match=text):
        restore(file, data)
    assert list(data.iterdir()) == []


def test_a_file_cut_off_anywhere(data: Path, tmp_path: Path) -> None:
    dump(data, tmp_path / "dump")
    content = (tmp_path / "dump").read_bytes()
    copy = tmp_path / "copy"
    copy.mkdir()
    for end in range(0, len(content), 97):
        (tmp_path / "dump").write_bytes(content[:end])
        with pytest.raises(CommandError):
            restore(tmp_path / "dump", copy)
        assert list(copy.iterdir()) == []


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with pytest.raises(CommandError, match=f"^cannot restore {tmp_path}/none: No such file or directory$"):
        restore(tmp_path / "none", data)
    assert list(data.iterdir()) == []


def test_what_fails_leaves_other_files_as_they_are(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "audit").write_text("kept")
    (tmp_path / "file").write_bytes(pack(["penstock dump", 2, {}]) + pack(["shard", 0]) + pack(["what"]))
    with pytest.raises(CommandError, match="it has a 'what'"):
        restore(tmp_path / "file", data)
    assert [path.name for path in data.iterdir()] == ["audit"]
