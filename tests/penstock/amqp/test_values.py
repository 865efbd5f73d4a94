"""Field table values for which Python has no type, and RabbitMQ's names of all types."""

from __future__ import annotations

from decimal import Decimal

import pytest

from penstock.amqp.values import ByteArray, Float32, Timestamp, type_name


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "void"),
        (True, "bool"),
        (5, "signedint"),
        (-(2**31), "signedint"),
        (2**31 - 1, "signedint"),
        (2**31, "long"),
        (-(2**31) - 1, "long"),
        (Timestamp(5), "timestamp"),
        (0.5, "double"),
        (Float32(0.5), "float"),
        (Decimal("0.5"), "decimal"),
        ("a", "longstr"),
        (b"\xff", "binary"),
        (ByteArray(b"a"), "binary"),
        ({}, "table"),
        ([], "array"),
        ((), "array"),
    ],
    ids=repr,
)
def test_every_type_has_its_name(value: object, name: str) -> None:
    assert type_name(value) == name


def test_other_types_have_none() -> None:
    with pytest.raises(TypeError, match="set"):
        type_name(set())


def test_they_compare_as_what_they_are() -> None:
    """Comparisons ignore the width of a number and whether it is a timestamp."""
    assert (Timestamp(5), Float32(0.5), ByteArray(b"a")) == (5, 0.5, b"a")
