"""One TLS session without its socket: ciphertext in, plaintext out, and the other way round.

Two memory BIOs of OpenSSL are between the session and the socket. Everything that is fed is read at once, until OpenSSL
wants more: only the part of a record that is not complete stays inside, at most `RECORD_BYTES`. Of a rest that stayed
longer the event loop would never hear. Plaintext is shorter than its ciphertext, so it fits a buffer that has room for
what was fed and one record more.

A memory BIO never shrinks. So it is fed and emptied in slices of `SLICE_BYTES`, and small however much passes.

A KeyUpdate has 27 bytes on the wire, and costs as much as the decryption of 64 KiB; OpenSSL takes as many as come. No
client needs more than a few. So records without contents are counted, a client that sends too many of them is refused,
and a slice ends after `SLICE_RECORDS`: OpenSSL is not to process a whole read of them at once.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from acceptor.tls.records_cy import Records

RECORD_BYTES = 16 * 1024 + 320
"""Bytes of one record at most, with its header and what encryption adds (RFC 8446, 5.2; RFC 5246, 6.2.3)."""
SLICE_BYTES = 64 * 1024
SLICE_RECORDS = 32
EMPTY_MOST = 64
"""Records without contents that a client may send at once, those of its handshake among them."""
EMPTY_SECONDS = 1.0
"""How often it may send one more."""


class TlsStream:
    """A session of the server's side. Errors are those of `ssl`; after one only `output` is of use: the alert."""

    __slots__ = ("_empty", "_fed", "_forgiven", "_has_read", "_records", "_ssl", "_written", "ended")

    def __init__(self, context: ssl.SSLContext) -> None:
        self._fed, self._written = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._fed, self._written, server_side=True)
        self._records = Records()
        self._empty = self._forgiven = 0.0
        self._has_read = self.ended = False

    def shake_hands(self, ciphertext: bytes) -> bool:
        """Feed what the client has sent; return whether the handshake is complete. What follows it stays fed."""
        self._records.take(memoryview(ciphertext), 0, len(ciphertext), len(ciphertext))
        self._count_empty(self._records.complete)
        self._fed.write(ciphertext)
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def decrypt(self, ciphertext: memoryview, plaintext: memoryview) -> int:
        """Decrypt all of a read into the beginning of a buffer; return the bytes of plaintext. `ended` once the client
        has closed its side (close_notify).
        """
        length = begin = 0
        while True:
            end = self._records.take(ciphertext, begin, min(begin + SLICE_BYTES, len(ciphertext)), SLICE_RECORDS)
            self._fed.write(ciphertext[begin:end])
            length += self._read(plaintext[length:], self._records.complete)
            if end == len(ciphertext):
                return length
            begin = end

    def _read(self, plaintext: memoryview, records: int) -> int:
        """Read what has been fed, of which so many records have ended; the first time also what followed the handshake.
        The records are counted so that OpenSSL is not asked in vain, which costs more than a small record.
        """
        length = 0
        while (records > 0 or not self._has_read) and not self.ended:
            try:
                count: Any = self._ssl.read(RECORD_BYTES, plaintext[length:])  # into a buffer: their number
            except ssl.SSLWantReadError:
                self._count_empty(records)
                break
            except ssl.SSLZeroReturnError:
                count = 0
            self.ended = not count
            length += count
            records -= 1
        self._has_read = True
        return length

    def forgive(self, now: float) -> None:
        """It is `now` (seconds): records without contents that came before count less."""
        self._empty = max(self._empty - (now - self._forgiven) / EMPTY_SECONDS, 0.0)
        self._forgiven = now

    def _count_empty(self, count: int) -> None:
        self._empty = max(self._empty + count, 0.0)
        if self._empty > EMPTY_MOST:
            raise ssl.SSLError("too many records without contents")

    def encrypt(self, chunks: Sequence[Any]) -> list[bytes]:
        """Encrypt chunks; return the ciphertext in order, with what else OpenSSL has to send."""
        found: list[bytes] = []
        gathered, size = [], 0
        for chunk in chunks:
            if len(chunk) < SLICE_BYTES:
                gathered.append(chunk)
                size += len(chunk)
                if size < SLICE_BYTES:
                    continue
                chunk = b"".join(gathered)
            elif gathered:
                self._write(b"".join(gathered), found)
            gathered, size = [], 0
            self._write(chunk, found)
        if gathered:
            self._write(gathered[0] if len(gathered) == 1 else b"".join(gathered), found)
        return found

    def _write(self, chunk: Any, found: list[bytes]) -> None:
        data = memoryview(chunk)
        for begin in range(0, len(data), SLICE_BYTES):
            self._ssl.write(data[begin : begin + SLICE_BYTES])
            found.append(self._written.read())

    def output(self) -> bytes:
        """Return what OpenSSL has to send by itself: steps of the handshake, tickets, answers to KeyUpdate, alerts."""
        return self._written.read() if self._written.pending else b""

    def close(self) -> bytes:
        """Return what closes our side (close_notify); nothing can be encrypted after it."""
        with suppress(ssl.SSLError):  # the client has not closed its side, or the session has failed
            self._ssl.unwrap()
        return self.output()

    def version(self) -> str:
        """Return the version of TLS."""
        return self._ssl.version() or ""

    def cipher(self) -> str:
        """Return the name of the cipher."""
        agreed = self._ssl.cipher()
        return agreed[0] if agreed else ""

    def certificate(self) -> bytes | None:
        """Return the client's certificate (DER), which has been verified; None if it has sent none."""
        return self._ssl.getpeercert(binary_form=True)
