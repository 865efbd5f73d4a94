"""Amounts: accepted notations, and the reasons for refusing others."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.text.amounts import Amount, AmountError, count, percentage, size

KIB, MIB = 1024, 1024**2


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("4096", 4096), ("0", 0), ("10 B", 10), ("10MB", 10_000_000), ("10 MB", 10_000_000), ("1 kB", 1000),
        ("1 KB", 1000), ("512 KiB", 512 * KIB), ("1.5 GiB", 1536 * MIB), (" 2 TiB ", 2 * KIB**4), ("0.5 KiB", 512),
    ],
)  # fmt: skip
def test_sizes(text: str, nbytes: int) -> None:
    assert size(text) == nbytes


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("10 M", r"the unit of '10 M' can be mistaken: write 10 MB \(1000\^2\) or MiB \(1024\^2\)"),
        ("64 mb", "can be mistaken: write 64 MB"),
        ("64 Mb", "can be mistaken"),
        ("64 kib", r"write 64 KB \(1000\^1\) or KiB"),
        ("1 KIB", "can be mistaken"),
        ("5 bytes", "unknown unit: there are B, kB, MB"),
        ("5 %", "unknown unit"),
        ("lots", "'lots' is not an amount: write it like 10000, 10 MB, 512 KiB or 80 %"),
        ("-1", "is not an amount"),
        ("", "is not an amount"),
        ("1e6", "unknown unit|not an amount"),
        ("²", "is not an amount"),
        ("1" * 5000, "'1{40}' is not an amount"),
        ("1.3", "'1.3' is not a whole number"),
        ("0.001 KiB", "not a whole number"),
    ],
)
def test_sizes_refused(text: str, reason: str) -> None:
    with pytest.raises(AmountError, match=reason):
        size(text)


def test_counts() -> None:
    assert count("12000") == 12000
    for wrong in ("12 k", "1 MB", "3 %", "1.5", "x"):
        with pytest.raises(AmountError):
            count(wrong)


def test_percentages() -> None:
    assert (percentage("80 %"), percentage("80%"), percentage("100 %"), percentage("0%")) == (80, 80, 100, 0)
    assert percentage("80") is None
    for wrong in ("101 %", "1.5 %", "x %", "%", "-3 %"):
        with pytest.raises(AmountError):
            percentage(wrong)


def test_percent_of_a_limit() -> None:
    assert Amount(80, True).of(1000) == 800 and Amount(80).of(1000) == 80
    assert (str(Amount(80, True)), str(Amount(80))) == ("80 %", "80")


@given(st.text(max_size=20))
def test_every_text_is_an_amount_or_refused(text: str) -> None:
    for read in (size, count, percentage):
        with suppress(AmountError):
            found = read(text)
            assert found is None or found >= 0
