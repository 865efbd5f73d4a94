"""Stored passwords: hashed, never in the clear.

    $argon2id$v=19$…      ours (RFC 9106)
    sha256:BASE64         RabbitMQ's, as in its definitions: four bytes of salt, then the digest of salt and password
    sha512:BASE64
    (empty)               none: no password is accepted

Verifying argon2 takes tens of milliseconds by intent, and memory; verifying the others takes next to nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final

import argon2

from penstock.control.argon2_hash import Argon2Hash

ARGON2: Final = "$argon2"
NONE: Final = ""
SALT_BYTES = 4

# The minimum that OWASP's password storage cheat sheet advises: a node verifies many passwords, several at a time.
_HASHER = argon2.PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
_DIGESTS = {"sha256": hashlib.sha256, "sha512": hashlib.sha512}
_RABBIT_ALGORITHMS = {"rabbit_password_hashing_sha256": "sha256", "rabbit_password_hashing_sha512": "sha512"}
_ARGON2_ALGORITHM = "argon2id"
"""The algorithm of our own hashes in definitions; RabbitMQ cannot verify them."""

_TIME_MAX = 16
_MEMORY_KIB_MAX = 256 * 1024
_LANES_MAX = 16
"""Maxima for a hash that was made elsewhere: they bound the cost of a login."""


def hashed(password: str) -> str:
    """Hash a password, by argon2id with a salt of its own; takes tens of milliseconds."""
    return _HASHER.hash(_nbytes(password))


def is_slow(stored: str) -> bool:
    """Whether verifying the hash takes long enough to need a thread."""
    return stored.startswith(ARGON2)


def verify(stored: str, password: str) -> bool:
    """Whether the password matches the hash. An empty one never does. argon2.exceptions.HashingError if there is no
    memory for argon2.
    """
    if not password or stored == NONE:
        return False
    if is_slow(stored):
        try:
            return Argon2Hash.decode(stored).verify(_nbytes(password))
        except ValueError:
            return False
    name, _, encoded = stored.partition(":")
    raw = base64.b64decode(encoded)
    salt, digest = raw[:SALT_BYTES], raw[SALT_BYTES:]
    return hmac.compare_digest(digest, _DIGESTS[name](salt + _nbytes(password)).digest())


def check(stored: str) -> None:
    """Check that a hash can be verified in bounded time. ValueError, in words for a person, if not."""
    if stored == NONE:
        return
    if not stored.isascii():
        raise ValueError("the password hash is not ASCII")
    if is_slow(stored):
        _check_argon2(stored)
        return
    name, colon, encoded = stored.partition(":")
    if not colon or name not in _DIGESTS:
        raise ValueError("the password hash is neither argon2 nor RabbitMQ's salted SHA-256 or SHA-512")
    try:
        nbytes = len(base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError):
        raise ValueError(f"the {name} password hash is not base64") from None
    if nbytes != SALT_BYTES + _DIGESTS[name]().digest_size:
        raise ValueError(f"the {name} password hash has {nbytes} bytes, which is no salt and digest")


def _check_argon2(stored: str) -> None:
    found = Argon2Hash.decode(stored).parameters
    if found.time_cost > _TIME_MAX or found.memory_cost > _MEMORY_KIB_MAX or found.parallelism > _LANES_MAX:
        raise ValueError(
            f"the argon2 password hash is too costly: at most t={_TIME_MAX}, m={_MEMORY_KIB_MAX}, p={_LANES_MAX}"
        )


def from_rabbitmq(encoded: str, algorithm: str) -> str:
    """Convert a `password_hash` of RabbitMQ's definitions to its stored form. ValueError if that is impossible."""
    if encoded == "":
        return NONE
    if algorithm == _ARGON2_ALGORITHM and is_slow(encoded):
        stored = encoded
    elif algorithm in _RABBIT_ALGORITHMS:
        stored = f"{_RABBIT_ALGORITHMS[algorithm]}:{encoded}"
    else:
        known = " and ".join(_RABBIT_ALGORITHMS)
        raise ValueError(f"hashing algorithm {algorithm!r} is not supported; {known} are")
    check(stored)
    return stored


def to_rabbitmq(stored: str) -> tuple[str, str]:
    """Return a stored password as `password_hash` and `hashing_algorithm` of definitions; the inverse of
    `from_rabbitmq`.
    """
    if stored == NONE or is_slow(stored):
        return stored, _ARGON2_ALGORITHM
    name, _, encoded = stored.partition(":")
    return encoded, next(algorithm for algorithm, short in _RABBIT_ALGORITHMS.items() if short == name)


def _nbytes(password: str) -> bytes:
    return password.encode("utf-8", "surrogateescape")
