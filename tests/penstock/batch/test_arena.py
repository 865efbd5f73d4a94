"""The arena: blocks are lent, lent on and returned, and keep their contents as long as anybody reads them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.batch.arena import BLOCK_BYTES, Arena, Borrower, Loan

TWO = 2 * BLOCK_BYTES


def taken(arena: Arena, content: bytes) -> memoryview:
    """Return a view of some content in a new block."""
    loan = arena.lend()
    assert loan is not None
    view = memoryview(loan)
    view[: len(content)] = content
    return view[: len(content)]


def lend(view: memoryview, receiver: int = 0) -> list[int]:
    assert isinstance(view.obj, Loan)
    return view.obj.lend(view, receiver)


def free(arena: Arena) -> int:
    """Return the number of free blocks."""
    loans = []
    while (loan := arena.lend()) is not None:
        loans.append(loan)
    return len(loans)


def allocated_bytes(file: int) -> int:
    return os.fstat(file).st_blocks * 512


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_block_is_free_again_once_its_owner_lets_go() -> None:
    arena = Arena(TWO, 1, 1)
    first, second = arena.lend(), arena.lend()
    assert first is not None and second is not None and arena.lend() is None
    assert len(first) == BLOCK_BYTES
    del first
    assert free(arena) == 1


def test_a_block_has_memory_once_it_is_used() -> None:
    arena, borrower = Arena(16 * BLOCK_BYTES, 1, 1), Borrower(1)
    view = taken(arena, b"content")
    reference = lend(view)
    file = reference[1]
    assert BLOCK_BYTES <= allocated_bytes(file) < 2 * BLOCK_BYTES
    assert bytes(borrower.borrow(reference)) == b"content"
    more = taken(arena, b"more")
    assert 2 * BLOCK_BYTES <= allocated_bytes(file) < 3 * BLOCK_BYTES
    del more
    assert free(arena) == 15
    assert allocated_bytes(file) > 16 * BLOCK_BYTES


def test_without_memory_for_it_a_block_is_not_lent() -> None:
    arena = Arena(TWO, 1, 1)
    view = taken(arena, b"content")
    file = lend(view)[1]
    with open(os.devnull, "rb") as no_memory:  # a file that nothing can be allocated for
        os.dup2(no_memory.fileno(), file)
    assert arena.lend() is None
    assert bytes(view) == b"content"


def test_a_lent_block_is_free_once_it_is_back() -> None:
    arena, borrower = Arena(TWO, 1, 1), Borrower(1)
    view = taken(arena, b"a large content")
    reference = lend(view[2:7])
    del view
    assert free(arena) == 1  # lent, though nobody has borrowed it yet
    borrowed = borrower.borrow(reference)
    assert bytes(borrowed) == b"large" and free(arena) == 1
    del borrowed
    assert free(arena) == 2


def test_a_borrower_lends_on() -> None:
    arena, shard, acceptor = Arena(TWO, 2, 2), Borrower(1), Borrower(1)
    view = taken(arena, b"content")
    at_shard = shard.borrow(lend(view, 1))
    del view
    at_acceptor = acceptor.borrow(lend(at_shard[3:], 1))
    del at_shard
    assert bytes(at_acceptor) == b"tent" and free(arena) == 1
    del at_acceptor
    assert free(arena) == 2


def test_only_the_owner_writes() -> None:
    arena, borrower = Arena(TWO, 1, 1), Borrower(1)
    view = taken(arena, b"content")
    borrowed = borrower.borrow(lend(view))
    assert not view.readonly and borrowed.readonly


@pytest.mark.parametrize("receiver", [-1, 2])
def test_there_is_no_such_receiver(receiver: int) -> None:
    view = taken(Arena(TWO, 2, 2), b"content")
    with pytest.raises(IndexError):
        lend(view, receiver)


def test_what_has_been_lent_outlives_a_new_beginning() -> None:
    arena, borrower = Arena(TWO, 1, 1), Borrower(2)
    lost = lend(taken(arena, b"never borrowed"))
    borrowed = borrower.borrow(lend(taken(arena, b"content")))
    assert free(arena) == 0
    arena.begin()
    assert free(arena) == 2 and bytes(borrowed) == b"content"
    assert bytes(borrower.borrow(lost)) == b"never borrowed"  # known to the borrower, so still there


def test_an_arena_that_is_gone_cannot_be_borrowed_from() -> None:
    arena, borrower = Arena(TWO, 1, 1), Borrower(1)
    reference = lend(taken(arena, b"content"))
    arena.begin()
    with pytest.raises(OSError, match=r"No such file|is not arena"):
        borrower.borrow(reference)


def test_arenas_leave_nothing_open() -> None:
    arena, borrower = Arena(TWO, 1, 1), Borrower(1)
    before = open_files()
    for _ in range(5):
        assert bytes(borrower.borrow(lend(taken(arena, b"content")))) == b"content"
        arena.begin()
    assert open_files() <= before + 2  # the one that the borrower still maps


OTHER = """
import sys
from penstock.batch.arena import Borrower
view = Borrower(1).borrow([int(number) for number in sys.argv[1:]])
sys.stdout.buffer.write(view)
"""


TOO_LARGE = """
import resource
from penstock.batch.arena import Arena
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    Arena(1 << 21, 1, 1)
except OSError as error:
    print(error.strerror, end="")
"""


def run(program: str, *arguments: str) -> bytes:
    """Return the output of a program."""
    root = Path(__file__).parents[3]
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=root, stdout=subprocess.PIPE, check=True, timeout=60
    ).stdout


def test_no_memory_for_it() -> None:
    assert run(TOO_LARGE) == b"File too large"


def test_another_process_borrows() -> None:
    arena = Arena(TWO, 1, 1)
    view = taken(arena, b"content" * 10_000)
    reference = lend(view)
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", OTHER, *map(str, reference)], cwd=root, capture_output=True, check=True
    )
    assert done.stdout == bytes(view)
    del view
    assert free(arena) == 2


@given(
    st.lists(
        st.tuples(st.sampled_from(["take", "lend", "lend on", "let go", "begin"]), st.integers(0, 99)), max_size=60
    )
)
def test_nothing_is_written_over_while_it_is_read(steps: list[tuple[str, int]]) -> None:
    """Every holder of bytes of a block finds them as it received them."""
    arena, shards, acceptors = Arena(TWO, 2, 2), [Borrower(99), Borrower(99)], [Borrower(99), Borrower(99)]
    held: list[tuple[str, memoryview, bytes]] = []
    for number, (step, pick) in enumerate(steps):
        if step == "take":
            content = b"%06d" % number
            if (loan := arena.lend()) is not None:
                view = memoryview(loan)[:6]
                view[:] = content
                held.append(("owner", view, content))
                del view
            del loan
        elif step == "begin":
            arena.begin()
        elif held:
            holder, view, content = held[pick % len(held)]
            if step == "let go":
                del held[pick % len(held)]
            elif step == "lend" and holder == "owner":
                held.append(("shard", shards[pick % 2].borrow(lend(view, pick % 2)), content))
            elif step == "lend on" and holder == "shard":
                held.append(("acceptor", acceptors[pick % 2].borrow(lend(view, pick % 2)), content))
            del view
        assert all(bytes(view) == content for _, view, content in held)
    held.clear()
    assert free(arena) == 2
