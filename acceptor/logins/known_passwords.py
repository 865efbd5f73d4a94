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

DIGEST_OCTETS = 32
KEY_OCTETS = 32
SETS = 2048
WAYS = 8
SET_OCTETS = WAYS * DIGEST_OCTETS
OCTETS = KEY_OCTETS + SETS * SET_OCTETS


class KnownPasswords:
    """The set, and the digests in it. `memory` begins with the key."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._key = memory[:KEY_OCTETS]

    @classmethod
    def of_process(cls) -> KnownPasswords:
        """Return a set that is not shared."""
        memory = mmap.mmap(-1, OCTETS)
        memory[:KEY_OCTETS] = os.urandom(KEY_OCTETS)
        return cls(memory)

    @classmethod
    def open(cls, path: Path) -> KnownPasswords:
        """Return the set of a node. OSError or ValueError if there is none."""
        with path.open("r+b") as file:
            return cls(mmap.mmap(file.fileno(), OCTETS))

    def digest(self, *parts: str) -> bytes:
        """Return the keyed hash of some texts."""
        digest = blake2b(key=self._key, digest_size=DIGEST_OCTETS)
        for part in parts:
            octets = part.encode("utf-8", "surrogateescape")
            digest.update(len(octets).to_bytes(4, "big") + octets)
        return digest.digest()

    def has(self, digest: bytes) -> bool:
        """Whether a digest is known."""
        begin = _set_of(digest)
        return any(
            self._memory[at : at + DIGEST_OCTETS] == digest for at in range(begin, begin + SET_OCTETS, DIGEST_OCTETS)
        )

    def add(self, digest: bytes) -> None:
        """Add a digest; a full set drops its oldest."""
        if not self.has(digest):
            begin = _set_of(digest)
            known = self._memory[begin : begin + SET_OCTETS]
            self._memory[begin : begin + SET_OCTETS] = digest + known[:-DIGEST_OCTETS]


def create(path: Path) -> None:
    """Make the memory of a node, mode 0600, with a key of its own. OSError if it exists or cannot be made."""
    with open(path, "xb", opener=private) as file:
        file.write(os.urandom(KEY_OCTETS) + bytes(OCTETS - KEY_OCTETS))


def _set_of(digest: bytes) -> int:
    """Return the offset of the set that a digest belongs to."""
    return KEY_OCTETS + int.from_bytes(digest[:4], "big") % SETS * SET_OCTETS
