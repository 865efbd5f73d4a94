"""A store that another process has open and writes, as a shard of a running node does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

ROOT = Path(__file__).resolve().parents[3]
WRITER = """
import sys
from pathlib import Path
from penstock.batch.batch_cy import PERSISTENT, BatchBuilder
from shard.store.journal import Journal
from shard.contents.queue_cy import Queue, UNLIMITED
from shard.store.store import Store
from tests.ops.store.making import LIMIT, address, header
store = Store(Path(sys.argv[1]), LIMIT, False, 1)
journal = Journal(store.read)
queues = [Queue(id, None, store.starts << 36, journal, True) for id in (7, 8, 100)]
number = 0
print("open", flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        queue = queues[number % 3]
        builder = BatchBuilder()
        for _ in range(3):
            builder.add(address("", "q"), header(bytes(20_000)), bytes(20_000), PERSISTENT)
        queue.enqueue(builder.finish(), 0, 3)
        store.write(journal.hand_over())
        for item in queue.pop(2, UNLIMITED, False):
            queue.settle(item.sequence, item.count)
        if queue.totals.published > 30:
            for item in queue.pop(4, UNLIMITED, False):
                queue.settle(item.sequence, item.count)
        store.write(journal.hand_over())
        store.sync()
        store.has_room(False)
        number += 1
    print("done", flush=True)
store.end()
"""
Write = Callable[[int], None]


@contextmanager
def written(path: Path) -> Iterator[Write]:
    """Open a store in another process; yield a function that makes that process write to it `times` times."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdin and writer.stdout

        def write(times: int) -> None:
            print(times, file=writer.stdin, flush=True)
            assert writer.stdout and writer.stdout.readline() == "done\n"

        try:
            assert writer.stdout.readline() == "open\n"
            yield write
            writer.stdin.close()
            assert writer.wait() == 0
        finally:
            writer.kill()


def readers(path: Path) -> str:
    """Return LMDB's table of the readers of a store."""
    with lmdb.open(str(path), readonly=True, create=False) as env:
        return str(env.readers())


def reading_pids(path: Path) -> set[int]:
    """Return the pids of the readers of a store."""
    return {int(line.split()[0]) for line in readers(path).splitlines()[1:]}
