"""The scanner (AMQP 0-9-1, 2.3.5 and 4.2), compiled and plain, against the plainest reading of the same bytes."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.amqp.encode_cy import Output
from penstock.batch.arena import BLOCK_BYTES, Arena, Loan
from tests import frames
from tests.frames import BODY, HEADER, HEARTBEAT, header_frame, method_frame, publish_frames
from tests.penstock.amqp import corpus, streams
from tests.penstock.amqp.reading import FRAME_MAX, MAX_BODY, SCAN, Event, Reads, pieces, read, said
from tests.twins import both_ways, load_compiled, load_plain

Load = Callable[[str], ModuleType]
COMPILED, PLAIN = load_compiled(SCAN), load_plain(SCAN)
KEPT = corpus.nbytes("streams")

cuts = st.lists(st.integers(0, 5000), max_size=12)


def in_every_way(data: bytes, cuts: list[int]) -> list[Event]:
    """Return a stream's events: the same whole, byte by byte and in pieces, by the plain and the compiled scanner."""
    whole = Reads(PLAIN).say([data])
    for module, round_it in (PLAIN, b""), (COMPILED, b""), (COMPILED, b"\xce\x03\0\1\0" * 20), (COMPILED, bytes(99)):
        assert Reads(module, round_it=round_it).say([data]) == whole
        assert Reads(module, round_it=round_it).say(pieces(data, cuts)) == whole
        assert Reads(module, round_it=round_it).say([data[i : i + 1] for i in range(len(data))]) == whole
    return whole


@given(streams.valid, cuts)
def test_however_a_stream_comes_it_says_the_same(stream: list[bytes], cuts: list[int]) -> None:
    data = b"".join(stream)
    events = in_every_way(data, cuts)
    assert events == read(data)
    assert "failure" not in {event[0] for event in events}


@settings(max_examples=300)
@given(streams.hostile(KEPT), cuts)
def test_whatever_comes_is_taken_or_refused_as_the_specification_says(data: bytes, cuts: list[int]) -> None:
    events = in_every_way(data, cuts)
    assert events == read(data)
    assert all(code in (501, 505) for kind, code, *_ in events if kind == "failure")


@pytest.mark.parametrize(("data", "code"), corpus.at_the_limits("streams"))
def test_bytes_at_the_limits(data: bytes, code: int | None) -> None:
    events = in_every_way(data, [])
    assert events == read(data)
    assert [event[1] for event in events if event[0] == "failure"] == ([] if code is None else [code])


@given(streams.valid, st.integers(20, 120))
def test_what_was_scanned_is_written_as_it_came(stream: list[bytes], frame_max: int) -> None:
    """`Output.contents` lays out messages as a publish does, so scanning its output gives the same events."""
    events: list[Any] = []
    data = b"".join(stream)
    COMPILED.Scanner(FRAME_MAX, MAX_BODY).scan(bytearray(data), 0, len(data), events)
    for run in events:
        if isinstance(run, COMPILED.PublishRun):
            output = Output()
            bits = bytes([run.mandatory | run.immediate << 1])
            prefix = b"\0\x3c\0\x28\0\0"
            output.contents(run.channel, prefix, 0, False, bits, run.batch, 0, len(run.batch), frame_max)
            written = b"".join(output.pop_chunks())
            again = Reads(COMPILED, FRAME_MAX, MAX_BODY)
            assert again.say([written]) == said([run], COMPILED)
            assert again.rest == b""


def only(events: list[Any]) -> Any:
    assert len(events) == 1
    return events[0]


@both_ways
def test_publishes_with_the_same_method_frame_are_one_run(load: Load) -> None:
    module = load(SCAN)
    data = b"".join(publish_frames(1, b"body %d" % i, "x", "k", priority=i) for i in range(100))
    run = only(Reads(module, 4096, 4096).feed(data))
    assert (run.channel, run.address, run.mandatory, run.immediate) == (1, b"\1x\1k", False, False)
    assert run.frame == method_frame("basic.publish", 1, exchange="x", routing_key="k")
    assert [run.batch.record(i)[2] for i in range(len(run.batch))] == [b"body %d" % i for i in range(100)]


@both_ways
def test_a_run_ends_where_the_method_frame_differs(load: Load) -> None:
    module = load(SCAN)
    one, other = publish_frames(1, b"", "x", "k"), publish_frames(1, b"", "x", "k", mandatory=True)
    runs = Reads(module).feed(one * 2 + other * 3 + one + publish_frames(2, b"", "x", "k") * 2)
    assert [(run.channel, run.mandatory, len(run.batch)) for run in runs] == [
        (1, False, 2),
        (1, True, 3),
        (1, False, 1),
        (2, False, 2),
    ]


@both_ways
def test_a_run_goes_on_behind_a_content_that_was_put_together(load: Load) -> None:
    reads = Reads(load(SCAN))
    nbytes = publish_frames(1, b"0123456789")
    assert [len(run.batch) for run in reads.feed(nbytes * 3 + nbytes[:30])] == [3]
    assert [len(run.batch) for run in reads.feed(nbytes[30:] + nbytes * 2)] == [3]


@both_ways
def test_settlements_in_a_row_are_one_run(load: Load) -> None:
    reads = Reads(load(SCAN))
    acks = b"".join(method_frame("basic.ack", 1, delivery_tag=tag) for tag in range(1, 101))
    nack = method_frame("basic.nack", 1, delivery_tag=101, multiple=True, requeue=True)
    other = method_frame("basic.reject", 2, delivery_tag=1)
    runs = reads.feed(acks + nack + other + method_frame("basic.get", 2) + other)
    assert [getattr(run, "count", None) for run in runs] == [101, 1, None, 1]
    assert said(runs, reads.module)[100:102] == [("settle", 1, 101, 1, 1), ("settle", 2, 1, 2, 0)]


@both_ways
def test_events_keep_the_order_of_a_channel(load: Load) -> None:
    """No settlement or publish moves ahead of an earlier frame of its channel."""
    ack, publish = method_frame("basic.ack", 1, delivery_tag=1), publish_frames(1, b"")
    large = publish_frames(1, bytes(MAX_BODY + 1))
    stream = [ack, publish, ack, method_frame("basic.get", 1), ack, publish, large, publish, ack, large, ack]
    events = Reads(load(SCAN)).say([b"".join(stream)])
    assert [event[0] for event in events] == [
        "settle", "publish", "settle", "method", "settle", "publish", "oversize", "publish", "settle", "oversize",
        "settle",
    ]  # fmt: skip
    assert Reads(load(SCAN)).feed(ack + large + ack)[1:2] != []


@both_ways
def test_a_body_frame_keeps_to_frame_max_however_it_comes(load: Load) -> None:
    """4.2.3: like RabbitMQ, the scanner accepts a payload 8 bytes longer than the negotiated size allows."""
    for size, failures in (FRAME_MAX - 8, 0), (FRAME_MAX, 0), (FRAME_MAX + 1, 1):
        data = publish_frames(1, bytes(size), frame_max=2**20)
        for cut in [], [40]:
            events = Reads(load(SCAN), FRAME_MAX, 2**20).say(pieces(data, cut))
            assert events[-1][0] == ("failure" if failures else "publish"), (size, cut)


@pytest.mark.parametrize("levels", [1, 63, 64, 65, 66, 5000])
@pytest.mark.parametrize("code", ["F", "A"])
@both_ways
def test_nested_headers_are_taken_as_deep_as_they_can_be_read(load: Load, code: str, levels: int) -> None:
    """`read` uses the decoder; 5000 levels would overflow an unbounded recursion."""
    name = b"\0" if code == "F" else b""
    inside = b""
    for _ in range(levels):
        inside = name + code.encode() + len(inside).to_bytes(4, "big") + inside
    inside = inside if name else b"\0" + inside
    header = bytes.fromhex("003c 0000 0000000000000000 2000") + len(inside).to_bytes(4, "big") + inside
    data = method_frame("basic.publish", 1) + frames.frame(HEADER, 1, header)
    events = Reads(load(SCAN), 2**20, 0).say([data])
    assert events == read(data, 2**20, 0)
    assert events[0][0] == ("publish" if levels <= 64 else "failure")


@both_ways
def test_a_frame_that_is_too_large_is_named(load: Load) -> None:
    data = frames.frame(1, 1, bytes(range(20)))
    failure = only(Reads(load(SCAN), 16, 16).feed(data))
    shown = ",".join(map(str, range(16)))
    assert failure.text == f"type 1, first 16 octets = <<{shown}>>: {{frame_too_large,20,8}}"
    assert failure.code == 501
    assert "<<0>>" in only(Reads(load(SCAN), 16, 16).feed(data[:8])).text


@both_ways
def test_a_failure_ends_it(load: Load) -> None:
    """Events before the failure count; the rest is ignored, messages in progress included."""
    reads = Reads(load(SCAN))
    events = reads.say([publish_frames(1, b"a") + publish_frames(2, b"bb")[:-1]])
    assert [event[0] for event in events] == ["publish"]
    events = reads.say([b"\xcf" + publish_frames(1, b"c"), publish_frames(1, b"c") * 2])
    assert [event[:2] for event in events] == [("failure", 501)]
    assert reads.scanner.failed and reads.rest == b""
    assert reads.feed(b"more") == []


@both_ways
def test_a_body_is_taken_as_it_comes(load: Load) -> None:
    """No byte of the body stays in the receive buffer to be scanned twice."""
    reads = Reads(load(SCAN), 4096, 10**6)
    reads.feed(method_frame("basic.publish", 1) + header_frame(1, 10_000, {}))
    frame = frames.frame(BODY, 1, b"a" * 8 + b"b" * 4000 + b"c" * 80)
    for piece, left in (frame[:7], 7), (frame[7:15], 0), (frame[15:4015], 0), (frame[4015:-1], 0), (b"\xce\x03\0", 2):
        assert reads.feed(piece) == []
        assert len(reads.rest) == left
    reads.feed(frame[2:] + frames.frame(BODY, 1, b"d" * 1000))
    run = only(reads.feed(frames.frame(BODY, 1, b"e" * 824)))
    assert run.batch.record(0)[2] == frame[7:-1] * 2 + b"d" * 1000 + b"e" * 824


@both_ways
def test_announcing_a_large_body_costs_little(load: Load) -> None:
    reads = Reads(load(SCAN), 4096, 2**30)
    tracemalloc.start()
    try:
        reads.feed(
            b"".join(publish_frames(channel, b"")[:-22] + header_frame(channel, 2**30, {}) for channel in [1, 2])
        )
        reads.feed(frames.frame(BODY, 1, b"x" * 1000))
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@both_ways
def test_a_body_that_is_too_large_is_skipped_in_passing(load: Load) -> None:
    """The body is reported once, at its header, and not kept; its channel and the others go on behind it."""
    reads = Reads(load(SCAN), 4096, 100)
    data = publish_frames(1, bytes(100_000), frame_max=4096)
    oversize = only(reads.feed(data[:5000]))
    assert (oversize.channel, oversize.size) == (1, 100_000)
    tracemalloc.start()
    try:
        events = [event for at in range(5000, len(data), 5000) for event in reads.feed(data[at : at + 5000])]
        assert events == []
        assert tracemalloc.get_traced_memory()[1] < 60_000
    finally:
        tracemalloc.stop()
    assert [event[0] for event in reads.say([publish_frames(1, b"a") + publish_frames(2, b"b")])] == ["publish"] * 2


@both_ways
def test_what_comes_between_tunings_obeys_the_newer_frame_max(load: Load) -> None:
    reads = Reads(load(SCAN), 16, 10**6)
    reads.scanner.frame_max = 4096
    assert reads.say([publish_frames(1, bytes(2000), frame_max=4096)])[0][0] == "publish"


@both_ways
def test_bytes_left_behind_are_those_of_the_frame_that_is_not_whole(load: Load) -> None:
    reads = Reads(load(SCAN))
    data = publish_frames(1, b"abc")
    for cut in range(len(data) + 1):
        reads.feed(data + data[:cut])
        rest = reads.rest
        assert data[:cut].endswith(rest)
        reads.feed(data[cut:])
        assert reads.rest == b""


@both_ways
def test_a_scan_says_whether_it_met_large_bodies(load: Load) -> None:
    """Whole large bodies count, and so do pieces of those that span several reads."""
    large, small = (bytearray(publish_frames(1, bytes(size), routing_key="q")) for size in (16_384, 16_383))
    scanner = load(SCAN).Scanner(131072, 2**20)
    for data, found in ((small, False), (large, True), (small, False)):
        assert scanner.scan(data, 0, len(data), []) == len(data)
        assert scanner.large is found
    half = bytearray(publish_frames(1, bytes(65_536), routing_key="q"))
    cut = scanner.scan(half, 0, 40_000, [])
    assert scanner.large
    assert scanner.scan(half, cut, len(half), []) == len(half)
    assert scanner.large


@both_ways
def test_a_scanner_keeps_nothing_of_what_it_has_said(load: Load) -> None:
    """Contents and arena blocks live only as long as the events that the caller keeps."""
    scanner = load(SCAN).Scanner(131072, 2**20)
    data = bytearray(publish_frames(1, b"x", routing_key="q") + method_frame("basic.ack", 1, delivery_tag=1))
    for _ in range(2):
        events: list[object] = []
        assert scanner.scan(data, 0, len(data), events) == len(data)
        assert len(events) == 2
        assert not [thing for event in events for thing in gc.get_referrers(event) if thing is scanner]


@both_ways
@pytest.mark.parametrize(
    ("sizes", "lent"),
    [
        ([100] * 2000, True),
        ([100] * 20, False),
        ([16_384, 65_536, 100_000, 100_000, 100_000, 16_384], True),
        ([300_000], True),
        ([BLOCK_BYTES], False),
        ([100, *[100_000] * 8], True),
    ],
)
def test_large_contents_and_long_runs_are_built_in_the_arena(load: Load, sizes: list[int], lent: bool) -> None:
    """The arena is used while it has free blocks; the contents are the same without it."""
    bodies = [bytes([i % 256]) * size for i, size in enumerate(sizes)]
    data = b"".join(publish_frames(1, body, routing_key="q", frame_max=131072) for body in bodies)
    for arena in (Arena(16 * BLOCK_BYTES, 1, 1), Arena(BLOCK_BYTES, 1, 1), None):
        scanner = load(SCAN).Scanner(131072, 2**20, arena)
        batches, left = [], b""
        for start in range(0, len(data), 262144):
            events: list[Any] = []
            piece = bytearray(left + data[start : start + 262144])
            used = scanner.scan(piece, 0, len(piece), events)
            left = bytes(piece[used:])
            batches += [event.batch for event in events]
        assert [batch.record(i)[2] for batch in batches for i in range(batch.count)] == bodies
        if arena is not None:
            found = any(isinstance(getattr(batch.contents, "obj", None), Loan) for batch in batches)
            assert found is lent


@both_ways
@pytest.mark.parametrize(("count", "runs"), [(5, 1), (7, 1), (12, 2)])
def test_what_one_read_brings_is_in_as_few_blocks_as_it_needs(load: Load, count: int, runs: int) -> None:
    body = bytes(65_536)
    data = bytearray(publish_frames(1, body, routing_key="q", frame_max=131072) * count)
    scanner = load(SCAN).Scanner(131072, 2**20, Arena(16 * BLOCK_BYTES, 1, 1))
    events: list[Any] = []
    assert scanner.scan(data, 0, len(data), events) == len(data)
    assert len(events) == runs
    assert all(isinstance(event.batch.contents.obj, Loan) for event in events)
    assert [event.batch.record(i)[2] for event in events for i in range(event.batch.count)] == [body] * count


@both_ways
@pytest.mark.parametrize(("count", "runs"), [(100, 2), (30, 1)])
def test_what_follows_a_content_that_was_put_together_is_in_the_arena(load: Load, count: int, runs: int) -> None:
    """Reads cut a stream anywhere: enough contents behind the cut make a run of their own in the arena."""
    one = publish_frames(1, bytes(1000), routing_key="q")
    scanner = load(SCAN).Scanner(131072, 2**20, Arena(16 * BLOCK_BYTES, 1, 1))
    first, second = bytearray(one[:-500]), bytearray(one[-500:] + one * count)
    events: list[Any] = []
    assert scanner.scan(first, 0, len(first), events) == len(first)
    assert scanner.scan(second, 0, len(second), events) == len(second)
    assert [event.batch.count for event in events] == ([1, count] if runs == 2 else [count + 1])
    lent = [isinstance(getattr(event.batch.contents, "obj", None), Loan) for event in events]
    assert lent == [False, True][:runs]


@both_ways
def test_scans_are_counted_with_the_bytes_that_they_have_used(load: Load) -> None:
    scanner, data = load(SCAN).Scanner(131072, 2**20), bytearray(frames.frame(HEARTBEAT, 0, b""))
    assert scanner.scan(data + data[:3], 0, len(data) + 3, []) == len(data)
    scanner.scan(bytearray(3) + data, 3, 3 + len(data), [])
    assert (scanner.scans, scanner.scanned) == (2, 2 * len(data))
    wrong = bytearray(b"no frame at all")
    scanner.scan(wrong, 0, len(wrong), [])
    assert scanner.failed and scanner.scanned == 2 * len(data) + len(wrong)
