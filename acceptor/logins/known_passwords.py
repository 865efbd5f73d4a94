"""Passwords that were right, known to all acceptors of a node while it runs, in shared memory.

The memory holds keyed hashes (BLAKE2b, 32 bytes) of user, stored hash and password: a changed password has another
hash, and no password can be read from the memory. Only right passwords enter it: guesses evict none, and a full set
drops its oldest. Nothing is locked: a half-written hash matches nothing, and costs a verification.
"""

from __future__ import annotations

import mmap
import os
from hashlib import blake2b
from pathlib import Path

from penstock.files.directories import private

DIGEST_BYTES = 32
KEY_BYTES = 32
SETS = 2048
WAYS = 8
SET_BYTES = WAYS * DIGEST_BYTES
BYTES = KEY_BYTES + SETS * SET_BYTES


class KnownPasswords:
    """The set, and the digests in it. `memory` begins with the key."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._key = memory[:KEY_BYTES]

    @classmethod
    def of_process(cls) -> KnownPasswords:
        """Return a set that is not shared."""
        memory = mmap.mmap(-1, BYTES)
        memory[:KEY_BYTES] = os.urandom(KEY_BYTES)
        return cls(memory)

    @classmethod
    def open(cls, path: Path) -> KnownPasswords:
        """Return the set of a node. OSError or ValueError if there is none."""
        with path.open("r+b") as file:
            return cls(mmap.mmap(file.fileno(), BYTES))

    def digest(self, *parts: str) -> bytes:
        """Return the keyed hash of some texts."""
        digest = blake2b(key=self._key, digest_size=DIGEST_BYTES)
        for part in parts:
            data = part.encode("utf-8", "surrogateescape")
            digest.update(len(data).to_bytes(4, "big") + data)
        return digest.digest()

    def has(self, digest: bytes) -> bool:
        """Whether a digest is known."""
        begin = _set_of(digest)
        return any(
            self._memory[at : at + DIGEST_BYTES] == digest for at in range(begin, begin + SET_BYTES, DIGEST_BYTES)
        )

    def add(self, digest: bytes) -> None:
        """Add a digest; a full set drops its oldest."""
        if not self.has(digest):
            begin = _set_of(digest)
            known = self._memory[begin : begin + SET_BYTES]
            self._memory[begin : begin + SET_BYTES] = digest + known[:-DIGEST_BYTES]


def create(path: Path) -> None:
    """Make the memory of a node, mode 0600, with a key of its own. OSError if it exists or cannot be made."""
    with open(path, "xb", opener=private) as file:
        file.write(os.urandom(KEY_BYTES) + bytes(BYTES - KEY_BYTES))


def _set_of(digest: bytes) -> int:
    """Return the offset of the set that a digest belongs to."""
    return KEY_BYTES + int.from_bytes(digest[:4], "big") % SETS * SET_BYTES
