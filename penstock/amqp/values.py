"""Values of field tables that Python has no type for (AMQP 0-9-1, 4.2.5.5, with RabbitMQ's errata).

Each is a subclass of the nearest Python type, so that it is written with the type it was read with.
"""

from __future__ import annotations

from decimal import Decimal


class Timestamp(int):
    """Seconds since 1970, 64 bits unsigned (T)."""


class Float32(float):
    """A floating-point number of 32 bits (f); `float` is one of 64 (d)."""


class ByteArray(bytes):
    """Bytes that are not text (x); a `bytes` is a long string that is not UTF-8."""


INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1

# The most specific type first: the first one a value is an instance of gives its name.
_NAMES: tuple[tuple[type, str], ...] = (
    (bool, "bool"),
    (Timestamp, "timestamp"),
    (Float32, "float"),
    (float, "double"),
    (str, "longstr"),
    (bytes, "binary"),
    (dict, "table"),
    (list, "array"),
    (tuple, "array"),
    (Decimal, "decimal"),
    (type(None), "void"),
)


def type_name(value: object) -> str:
    """RabbitMQ's word for the type of a value, as in its reply texts. TypeError for a type that no table can hold.

    Integers lose their width when they are read: those of 32 bits are `signedint`, wider ones `long`. A long string
    that is not UTF-8 is not text: it is `binary`, like a byte array. `penstock.amqp.methods_cy.argument_types` has the
    words for the types on the wire.
    """
    for kind, name in _NAMES:
        if isinstance(value, kind):
            return name
    if isinstance(value, int):
        return "signedint" if INT32_MIN <= value <= INT32_MAX else "long"
    raise TypeError(f"a field table cannot hold {type(value).__name__}")
