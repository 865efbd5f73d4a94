"""The spans that a process keeps until they are read."""

from __future__ import annotations

from penstock.tracing.spans import KEPT, Spans
from penstock.tracing.trace_context import TraceContext, new_span, new_trace


def put(spans: Spans, *names: str) -> None:
    for name in names:
        spans.put(new_trace(), new_span(), name, 1, 2)


def names(spans: Spans, after: int) -> list[str]:
    return [span["name"] for span in spans.report(after)["spans"]]


def test_a_span_as_it_is_reported() -> None:
    spans = Spans("shard.1")
    spans.put(TraceContext(b"t" * 16, b"p" * 8), b"s" * 8, "queue", 5, 9, queue="q")
    assert spans.report(0) == {
        "last": 1,
        "lost": 0,
        "spans": [
            {
                "trace": b"t".hex() * 16, "span": b"s".hex() * 8, "parent": b"p".hex() * 8, "name": "queue",
                "begin": 5, "end": 9, "process": "shard.1", "attributes": {"queue": "q"},
            }
        ],
    }  # fmt: skip


def test_the_first_span_of_a_trace_has_no_parent_and_none_ends_before_it_begins() -> None:
    spans = Spans("acceptor.0")
    spans.put(new_trace(), new_span(), "deliver", 9, 5)
    (span,) = spans.report(0)["spans"]
    assert (span["parent"], span["begin"], span["end"]) == (None, 9, 9)


def test_each_span_is_read_once() -> None:
    spans = Spans("acceptor.0")
    assert spans.report(0) == {"last": 0, "lost": 0, "spans": []}
    put(spans, "a", "b")
    assert (names(spans, 0), names(spans, 1), names(spans, 2)) == (["a", "b"], ["b"], [])
    put(spans, "c")
    assert names(spans, 2) == ["c"]


def test_the_latest_are_kept_and_the_others_counted() -> None:
    spans = Spans("acceptor.0")
    put(spans, *map(str, range(KEPT + 3)))
    found = spans.report(1)
    assert (found["last"], found["lost"], found["spans"][0]["name"]) == (KEPT + 3, 2, "3")
    assert spans.report(KEPT + 10)["spans"] == []
