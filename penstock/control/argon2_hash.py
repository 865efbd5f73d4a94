"""An argon2 hash of a password in its encoded form (PHC string format), and its verification.

    $argon2id$v=19$m=19456,t=2,p=1$SALT$DIGEST      m in KiB

`argon2.PasswordHasher` verifies as well, but in memory of malloc; here it is returned to the kernel (`argon2_memory`).
"""

from __future__ import annotations

import base64
import hmac
from typing import Any, Final, NamedTuple, Self

import argon2
from argon2.exceptions import HashingError
from argon2.low_level import core, error_to_str, ffi

from penstock.control.argon2_memory import ALLOCATE, RELEASE

UNREADABLE: Final = "the argon2 password hash cannot be read"
VERSIONS: Final = {16: 16, 18: 16, 19: 19}
"""The version of the algorithm by that of `argon2.extract_parameters`, which reports 18 for a hash that has none: such
hashes are of version 16.
"""

_ALLOCATE: Final[Any] = ffi.cast("int (*)(uint8_t **, size_t)", ALLOCATE)
_RELEASE: Final[Any] = ffi.cast("void (*)(uint8_t *, size_t)", RELEASE)


class Argon2Hash(NamedTuple):
    """A hash: its type (argon2id, argon2i or argon2d), version and costs, its salt and its digest."""

    parameters: argon2.Parameters
    salt: bytes
    digest: bytes

    @classmethod
    def decode(cls, encoded: str) -> Self:
        """Read an encoded hash. ValueError, in words for a person, if it cannot be read."""
        try:
            parameters = argon2.extract_parameters(encoded)
            salt, digest = map(_decoded, encoded.split("$")[-2:])
        except ValueError:
            raise ValueError(UNREADABLE) from None
        costs = parameters.memory_cost, parameters.time_cost, parameters.parallelism
        if parameters.version not in VERSIONS or min(costs) < 1:
            raise ValueError(UNREADABLE)
        return cls(parameters, salt, digest)

    def verify(self, password: bytes) -> bool:
        """Whether this is the hash of the password; takes as long as the costs demand, without the interpreter lock.
        argon2.exceptions.HashingError if there is no memory, or argon2 does not accept the parameters.
        """
        salt, secret = (ffi.from_buffer("uint8_t[]", each) for each in (self.salt, password))
        digest = ffi.new("uint8_t[]", len(self.digest))
        context = ffi.new(
            "argon2_context *",
            {
                "out": digest,
                "outlen": len(digest),
                "pwd": secret,
                "pwdlen": len(secret),
                "salt": salt,
                "saltlen": len(salt),
                "t_cost": self.parameters.time_cost,
                "m_cost": self.parameters.memory_cost,
                "lanes": self.parameters.parallelism,
                "threads": self.parameters.parallelism,
                "version": VERSIONS[self.parameters.version],
                "allocate_cbk": _ALLOCATE,
                "free_cbk": _RELEASE,
            },
        )
        error = core(context, self.parameters.type.value)
        if error:
            raise HashingError(error_to_str(error))
        return hmac.compare_digest(bytes(ffi.buffer(digest)), self.digest)


def _decoded(text: str) -> bytes:
    """Decode base64 without padding. ValueError if it is none."""
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
