"""Traces made of the spans of several processes."""

from __future__ import annotations

from typing import Any

from console.tracing.reading import traces


def span(trace: str, name: str, begin: int, end: int, parent: str | None = None) -> dict[str, Any]:
    return {
        "trace": trace, "span": f"{trace}{name}", "parent": parent, "name": name, "begin": begin, "end": end,
        "process": "shard.0", "attributes": {"queue": "q"},
    }  # fmt: skip


def test_spans_of_a_trace_by_their_begin_and_the_newest_trace_first() -> None:
    first = [span("a", "deliver", 2_000_000, 2_500_000, "aqueue"), span("a", "publish", 1_000_000, 1_001_000)]
    second = [span("b", "publish", 3_000_000, 3_000_500)]
    newest, oldest = traces([*first, *second])
    assert (newest["trace"], newest["begin"], newest["milliseconds"]) == ("b", 3.0, 0.5)
    assert (oldest["trace"], oldest["begin"], oldest["milliseconds"]) == ("a", 1.0, 1500.0)
    assert [each["name"] for each in oldest["spans"]] == ["publish", "deliver"]
    assert oldest["spans"][1] == {
        "span": "adeliver", "parent": "aqueue", "name": "deliver", "process": "shard.0", "begin": 2.0,
        "milliseconds": 500.0, "attributes": {"queue": "q"},
    }  # fmt: skip


def test_a_trace_is_as_long_as_all_of_its_spans() -> None:
    (found,) = traces([span("a", "queue", 0, 9_000), span("a", "confirm", 1_000, 2_000)])
    assert found["milliseconds"] == 9.0


def test_no_spans() -> None:
    assert traces([]) == []
