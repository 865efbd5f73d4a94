"""The destination that a consistent hash exchange chooses, computed from the definition alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b

from router.model.records import Binding, Destination

MASK = 2**64 - 1


def naive_choice(bindings: Iterable[Binding], key: str) -> set[Destination]:
    """Return the destination of a key; none without bindings."""

    def hashed(text: str) -> int:
        return int.from_bytes(blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "big")

    def score(destination: Destination) -> float:
        bits = hashed(key) ^ hashed(f"{destination[0]}\0{destination[1]}")
        for shift, multiplier in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            bits = (bits ^ bits >> shift) * multiplier & MASK
        bits ^= bits >> 31
        return -math.log((bits // 2048 + 0.5) / 2**53) / weights[destination]

    weights: Counter[Destination] = Counter()
    for binding in bindings:
        weights[binding.target] += int(binding.key)
    return {min(weights, key=lambda each: (score(each), each))} if weights else set()
