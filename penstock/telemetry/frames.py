"""Frames of Zstandard (RFC 8878) in files of telemetry: one after the other, each holding whole rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

import zstandard

LEVEL = 3
CHUNK = 64 * 1024


def frame(lines: Iterable[bytes]) -> bytes:
    """Compress lines into one frame, with a checksum that reveals damage."""
    return zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compress(b"".join(lines))


def whole(file: BinaryIO) -> int:
    """The bytes of a file, read from its start, that are whole frames; the rest is a partial frame, or damaged."""
    end = at = 0
    rest = file.read(CHUNK)
    while rest:
        decoder = zstandard.ZstdDecompressor().decompressobj()
        while rest and not decoder.eof:
            try:
                decoder.decompress(rest)
            except zstandard.ZstdError:
                return end
            at += len(rest) - len(decoder.unused_data)
            rest = decoder.unused_data or file.read(CHUNK)
        if not decoder.eof:
            return end
        end = at
    return end
