"""Dump and restore: what comes back is what was there, and a file that is none is refused."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ops.errors import CommandError
from ops.store.check import check
from ops.store.dump import dump, stored_topology
from ops.store.opened import opened
from ops.store.restore import restore
from penstock.batch.batch_cy import PERSISTENT, BatchBuilder
from penstock.bus import pack, unpack_stream
from penstock.files import kept_clock
from penstock.limits.features import QueueFeatures
from penstock.limits.watermarks import Marks, QueueLimits
from router.authority.ledger import Step
from router.model.records import Queue as QueueRecord
from router.storage.store import Store as TopologyStore
from shard.contents.queue_cy import UNLIMITED, Queue
from shard.contents.segment_cy import Segment
from shard.store.journal import Journal
from shard.store.store import Store
from tests.ops.store.making import LIMIT, address, change, fill, header, made

NAMES = {7: "plain", 8: b"caf\xe9".decode("utf-8", "surrogateescape"), 9: "other shard"}

GONE = (10, 77)
"""Queues that a restart of the node does not keep: a transient one, and one that was deleted."""


def with_topology(data: Path) -> None:
    """Durable queues of these ids, and a transient one."""
    store = TopologyStore(data / "topology.sqlite", 1)
    steps = [Step(["vhost", "/"], True)]
    limits, features = QueueLimits(None, None, "flow", Marks.NONE).to_wire(), QueueFeatures().to_wire()
    for id, name in {**NAMES, 10: "transient"}.items():
        arguments = {"x-odd": Decimal("1.5"), "x-octets": b"\xff"}
        record = QueueRecord(
            "/", name, id, id, id // 9, id != 10, False, None, arguments, limits, features, maker="bob"
        )
        steps.append(Step(record.change(), id != 10))
    store.commit(steps, 33, 10)
    store.close()


def everything(data: Path) -> dict[tuple[int, int], Any]:
    """All that is to come back of two stores: by queue id and number."""
    found: dict[tuple[int, int], Any] = {}
    for shard in (0, 1):
        store = Store(data / "shards" / str(shard), LIMIT, False, 1, shard)
        journal = Journal(store.read)
        returns = {(queue, number): count for queue, number, count in store.numbers("counts")}
        leases = {(queue, priority): number for queue, priority, number in store.numbers("leases")}
        for id, segment in store.segments():
            batch = journal.load(id, segment)
            for offset, count in segment.undone():
                for row in range(offset, offset + count):
                    key = id, segment.sequence + row
                    if batch.flags(row) & PERSISTENT and id not in GONE:
                        found[key] = batch.record(row), batch.flags(row), expiry(segment, row), returns.get(key)
        found.update({(-1 - id, priority): number for (id, priority), number in leases.items() if id not in GONE})
        store.close()
    return found


def expiry(segment: Segment, row: int) -> int:
    if segment.expiries is None:
        return segment.expiry
    return int.from_bytes(segment.expiries[8 * row : 8 * row + 8], "little")


def eventful(data: Path) -> None:
    """Messages of several lives with expiries, settled and returned ones, mixed batches, a queue that is gone."""
    fill(data, 0, {7: 10, 8: 4, 10: 2, 77: 3})
    fill(data, 1, {9: 5})
    for life in range(2):
        store = Store(data / "shards" / "0", LIMIT, False, 1, 0)
        journal = Journal(store.read)
        queue = Queue(7, None, store.life << 36, journal, True)
        leases = {priority: number for id, priority, number in store.numbers("leases") if id == 7}
        queue.recover([segment for id, segment in store.segments() if id == 7], leases)
        queue.configure(5000 if life else -1, False, 3)
        builder = BatchBuilder()
        for number in range(6):
            body = bytes([number]) * 300 * number
            flags = PERSISTENT if number != 2 else 0
            own = b"\x10\x00\x02" if number != 4 else b"\x11\x00\x02\x04" + b"9000"
            builder.add(address("x", "k"), header(body)[:-3] + own, body, flags | (4 if number == 4 else 0))
        queue.enqueue(builder.finish(), 0, 6, 1000)
        for item in queue.take(4, UNLIMITED, False):
            for number in range(item.sequence, item.sequence + item.count):
                if number % 2:
                    queue.settle(number, 1)
                else:
                    queue.requeue(number, 1)
        store.write(journal.hand_over())
        store.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir()
    with_topology(path)
    eventful(path)
    return path


def test_round_trip(data: Path, tmp_path: Path) -> None:
    before = everything(data)
    count = dump(data, tmp_path / "dump")
    assert (tmp_path / "dump").stat().st_mode & 0o777 == 0o600
    assert count.queues == 3
    assert count.messages == sum(id >= 0 for id, _ in before)
    copy = tmp_path / "copy"
    copy.mkdir()
    assert restore(tmp_path / "dump", copy) == count
    assert everything(copy) == before
    found = [check(copy / "shards" / str(shard), shard) for shard in (0, 1)]
    assert [each.problems for each in found] == [0, 0]
    one, other = stored_topology(data), stored_topology(copy)
    assert (other.version, other.last_queue_id, other.seeded) == (33, 10, True)
    assert one.changes == other.changes
    assert {change[2] for change in other.changes if change[0] == "queue"} == set(NAMES.values())


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


def test_the_source_is_left_as_it_is(data: Path, tmp_path: Path) -> None:
    files = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    dump(data, tmp_path / "dump")
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == files


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


def test_a_damaged_store_is_not_dumped(data: Path, tmp_path: Path) -> None:
    with opened(made(data, 0), 0) as store:
        key, value = next(store.records("contents"))
        octets = bytes(value)

    def cut(txn: Any, dbs: dict[str, Any]) -> None:
        txn.put(key, octets[:-1], db=dbs["contents"])

    change(data / "shards" / "0", cut)
    with pytest.raises(Exception, match="queue 7, message "):
        dump(data, tmp_path / "dump")
    assert not list(tmp_path.glob("dump*"))


def test_items_are_documented(data: Path, tmp_path: Path) -> None:
    dump(data, tmp_path / "dump")
    with (tmp_path / "dump").open("rb") as file:
        items = list(unpack_stream(file, 1 << 20))
    assert items[0][:2] == ["penstock dump", 2]
    assert {item[0] for item in items} == {"penstock dump", "topology", "shard", "lease", "message", "end"}
    assert items[-1] == ["end", sum(item[0] == "message" for item in items)]
