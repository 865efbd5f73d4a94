"""The limit on log lines, and the count of those left out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.node.log_limit import COUNTERS_MOST, KIND_LINES, PEER_LINES, LeftOut, LogLimit

LINES = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30).map(str)), max_size=1500)


def test_a_peer_has_so_many_lines_of_a_kind_a_second() -> None:
    limit = LogLimit()
    assert limit.over(100.0) == []
    assert [limit.is_written("error", "a", "info") for _ in range(PEER_LINES + 3)] == [True] * PEER_LINES + [False] * 3
    assert limit.is_written("error", "b", "info") and limit.is_written("other", "a", "info")
    assert limit.over(100.9) == []
    assert limit.over(101.0) == [LeftOut("error", "a", "info", 3)]
    assert limit.is_written("error", "a", "info")
    assert limit.rest(101.1) == []


def test_many_peers_together_have_so_many_of_a_kind() -> None:
    limit = LogLimit()
    written = [limit.is_written("error", str(peer), "warning") for peer in range(100_000)]
    assert sum(written) == KIND_LINES
    assert limit.rest(1.0) == [LeftOut("error", "", "warning", 100_000 - KIND_LINES)]


def test_what_is_kept_is_bounded() -> None:
    limit = LogLimit()
    written = [limit.is_written(f"kind {number}", "a", "info") for number in range(3 * COUNTERS_MOST)]
    assert sum(written) == COUNTERS_MOST + PEER_LINES
    (left_out,) = limit.rest(1.0)
    assert (left_out.kind, left_out.lines) == ("", 2 * COUNTERS_MOST - PEER_LINES)


@given(LINES)
def test_each_line_is_written_or_counted(lines: list[tuple[str, str]]) -> None:
    limit = LogLimit()
    written = [line for line in lines if limit.is_written(*line, "info")]
    left_out = limit.rest(1.0)
    assert len(written) + sum(each.lines for each in left_out) == len(lines)
    for kind in "abc":
        assert sum(line[0] == kind for line in written) == min(
            KIND_LINES, sum(min(PEER_LINES, lines.count(line)) for line in set(lines) if line[0] == kind)
        )
    assert all(each.lines for each in left_out)
