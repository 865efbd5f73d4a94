"""Password hashes: our own, RabbitMQ's, and those that are refused."""

from __future__ import annotations

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.control import passwords
from tests.router.making import rabbit_hash

OURS = passwords.hashed("secret")


def test_ours() -> None:
    assert passwords.is_slow(OURS) and "secret" not in OURS
    passwords.check(OURS)
    assert passwords.verify(OURS, "secret")
    assert not passwords.verify(OURS, "Secret")
    assert passwords.hashed("secret") != OURS  # each hash has its own salt


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
@pytest.mark.parametrize("password", ["secret", "pässwörd", "n\udcff"])
def test_of_rabbitmq(algorithm: str, password: str) -> None:
    data = password.encode("utf-8", "surrogateescape")
    encoded = base64.b64encode(b"salt" + hashlib.new(algorithm, b"salt" + data).digest()).decode()
    stored = passwords.from_rabbitmq(encoded, f"rabbit_password_hashing_{algorithm}")
    assert not passwords.is_slow(stored)
    assert passwords.verify(stored, password)
    assert not passwords.verify(stored, password + "x")


def test_one_that_rabbitmq_made() -> None:
    """`rabbitmqctl hash_password`, the documentation's example (access-control, passwords): test12, salt 908D C60A."""
    stored = passwords.from_rabbitmq(
        "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", "rabbit_password_hashing_sha256"
    )
    assert passwords.verify(stored, "test12")


@pytest.mark.parametrize(
    "stored",
    [OURS, passwords.NONE, rabbit_hash("x"), rabbit_hash("x", algorithm="sha512")],
    ids=["argon2", "none", "sha256", "sha512"],
)
def test_each_hash_survives_an_export(stored: str) -> None:
    assert passwords.from_rabbitmq(*passwords.to_rabbitmq(stored)) == stored


def test_no_password_opens_none() -> None:
    assert not passwords.verify(passwords.NONE, "")
    assert not passwords.verify(passwords.NONE, "x")
    assert passwords.from_rabbitmq("", "rabbit_password_hashing_md5") == passwords.NONE


def test_an_empty_password_never_opens() -> None:
    assert not passwords.verify(passwords.hashed(""), "")
    assert not passwords.verify(rabbit_hash(""), "")


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        ("secret", "the password hash is neither argon2 nor RabbitMQ's salted SHA-256 or SHA-512"),
        ("md5:c2FsdA==", "the password hash is neither argon2 nor RabbitMQ's salted SHA-256 or SHA-512"),
        ("sha256:not base64", "the sha256 password hash is not base64"),
        ("sha256:c2FsdA==", "the sha256 password hash has 4 bytes, which is no salt and digest"),
        ("sha512:é", "the password hash is not ASCII"),
        ("$argon2id$v=19$nonsense", "the argon2 password hash cannot be read"),
        (
            "$argon2id$v=19$m=9999999,t=2,p=1$c29tZXNhbHQ$RdescudvJCsgt3ub+b/dWRWJTmaaJObG",
            "the argon2 password hash is too costly: at most t=16, m=262144, p=16",
        ),
    ],
)
def test_what_cannot_be_verified_is_refused(stored: str, text: str) -> None:
    with pytest.raises(ValueError, match="password hash") as refused:
        passwords.check(stored)
    assert str(refused.value) == text


def test_an_algorithm_that_is_not_known() -> None:
    with pytest.raises(ValueError, match="'rabbit_password_hashing_md5' is not supported"):
        passwords.from_rabbitmq("c2FsdA==", "rabbit_password_hashing_md5")


@given(st.text(max_size=60) | st.builds("sha256:{}".format, st.text("ab=+/", max_size=60)))
def test_what_passes_the_check_can_be_verified(stored: str) -> None:
    try:
        passwords.check(stored)
    except ValueError:
        return
    assert not passwords.verify(stored, "x")
