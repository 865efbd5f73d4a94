"""Recovery of files of frames that were cut off or damaged: all whole frames, nothing else."""

from __future__ import annotations

import io

import zstandard
from hypothesis import given
from hypothesis import strategies as st

from penstock.telemetry.frames import CHUNK, frame, whole

LINES = st.lists(st.binary(max_size=300).map(lambda line: line + b"\n"), min_size=1, max_size=5)
FRAMES = st.lists(LINES, max_size=5).map(lambda rows: [frame(lines) for lines in rows])


def contents(data: bytes | bytearray) -> bytes:
    reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True)
    return bytes(reader.read())


@given(frames=FRAMES, cut=st.integers(0, 10_000), garbage=st.binary(max_size=40))
def test_what_was_cut_off_goes_with_what_follows_it(frames: list[bytes], cut: int, garbage: bytes) -> None:
    kept = b"".join(frames)[:cut]
    ends = [sum(map(len, frames[:count])) for count in range(len(frames) + 1)]
    expected = max(end for end in ends if end <= len(kept))
    assert whole(io.BytesIO(kept)) == expected
    if expected == len(kept):
        rest = b"\x00" + garbage  # no frame begins like this
        assert whole(io.BytesIO(kept + rest)) == expected


@given(frames=FRAMES.filter(bool), at=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_what_is_kept_of_a_damaged_file_is_as_it_was_written(frames: list[bytes], at: int, bit: int) -> None:
    data = bytearray(b"".join(frames))
    written = contents(data)
    data[at % len(data)] ^= 1 << bit
    assert written.startswith(contents(data[: whole(io.BytesIO(data))]))


def test_frames_may_be_larger_than_what_is_read_at_once() -> None:
    lines = [b"%d\n" % (number * 7919) for number in range(60_000)]
    data = frame(lines) + frame(lines[:10])
    assert len(data) > 2 * CHUNK
    assert whole(io.BytesIO(data)) == len(data)
    assert whole(io.BytesIO(data[:-1])) == len(frame(lines))
