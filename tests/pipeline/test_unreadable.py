"""The search for unreadable files: it finds all of them, in few attempts, and takes nothing else for one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.unreadable import separate


@given(st.integers(0, 60), st.sets(st.integers(0, 59)))
def test_each_unreadable_file_is_found(count: int, bad: set[int]) -> None:
    paths, attempts = [f"f{number}" for number in range(count)], []

    def attempt(some: Sequence[str]) -> None:
        attempts.append(some)
        if any(f"f{number}" in some for number in bad):
            raise OSError("[FAILED_READ_FILE.NO_HINT] Encountered error while reading file f.  SQLSTATE")

    assert separate(paths, attempt) == [path for number, path in enumerate(paths) if number in bad]
    assert len(attempts) <= 1 + 2 * 6 * len(bad)


def test_other_failures_make_no_file_unreadable() -> None:
    def attempt(_: Sequence[str]) -> None:
        raise OSError("Job 3 cancelled")

    with pytest.raises(OSError, match="cancelled"):
        separate(["a", "b"], attempt)
