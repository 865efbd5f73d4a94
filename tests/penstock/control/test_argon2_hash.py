"""Verification agrees with argon2-cffi's own, for each type, version and cost."""

from __future__ import annotations

import subprocess
import sys

import argon2
import pytest
from argon2.low_level import Type, hash_secret
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.control.argon2_hash import Argon2Hash
from tests.twins import ROOT

ENCODED = "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$RdescudvJCsgt3ub+b/dWQ"
WITHOUT_MEMORY = """
import resource
import psutil
from argon2.exceptions import HashingError
from penstock.control.argon2_hash import Argon2Hash

most = psutil.Process().memory_info().vms + 64 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (most, most))
try:
    Argon2Hash.decode("$argon2id$v=19$m=262144,t=1,p=1$c29tZXNhbHQ$RdescudvJCsgt3ub+b/dWQ").verify(b"secret")
except HashingError as error:
    print(error)
"""


def accepts(encoded: str, password: bytes) -> bool:
    """Whether argon2-cffi itself verifies the password."""
    try:
        return argon2.PasswordHasher().verify(encoded, password)
    except argon2.exceptions.VerifyMismatchError:
        return False


@settings(max_examples=50)
@given(
    kind=st.sampled_from(Type),
    version=st.sampled_from([16, 19]),
    time=st.integers(1, 3),
    lanes=st.integers(1, 3),
    memory=st.integers(24, 3000),
    salt=st.binary(min_size=8, max_size=40),
    digest_bytes=st.integers(4, 70),
    password=st.binary(min_size=1, max_size=100),
)
def test_as_argon2_cffi_verifies(
    kind: Type, version: int, time: int, lanes: int, memory: int, salt: bytes, digest_bytes: int, password: bytes
) -> None:
    encoded = hash_secret(password, salt, time, memory, lanes, digest_bytes, kind, version).decode()
    forms = [encoded, encoded.replace("$v=16", "")]
    for form in forms:
        for tried in (password, password + b"x", password[:-1]):
            assert Argon2Hash.decode(form).verify(tried) == accepts(form, tried)
    assert Argon2Hash.decode(encoded).verify(password)


def test_one_of_the_reference_implementation() -> None:
    """The first test of argon2id in its src/test.c."""
    encoded = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
    assert Argon2Hash.decode(encoded).verify(b"password")
    assert not Argon2Hash.decode(encoded).verify(b"passwort")


@pytest.mark.parametrize(
    "encoded",
    [
        "$argon2id$v=19$nonsense",
        ENCODED.replace("m=8", "m=-8"),
        ENCODED.replace("v=19", "v=20"),
        ENCODED.replace("argon2id", "argon2x"),
        ENCODED.replace("c29tZXNhbHQ", "c29tZXNhbHQ!"),
        ENCODED[:-1],
    ],
)
def test_a_hash_that_cannot_be_read(encoded: str) -> None:
    with pytest.raises(ValueError, match="the argon2 password hash cannot be read"):
        Argon2Hash.decode(encoded)


def test_parameters_that_argon2_does_not_accept() -> None:
    with pytest.raises(argon2.exceptions.HashingError, match="Salt is too short"):
        Argon2Hash.decode(ENCODED.replace("c29tZXNhbHQ", "c29t")).verify(b"secret")


def test_memory_that_there_is_not() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_MEMORY], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "Memory allocation error\n"
