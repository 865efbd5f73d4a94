"""Amounts as people write them: numbers, sizes with an unmistakable unit, percentages.

    10000 · "10000" · "10 MB" (10 × 1000²) · "512 KiB" (512 × 1024) · "1.5 GiB" · "80 %"

Units of sizes are B, kB (or KB), MB, GB, TB, and KiB, MiB, GiB, TiB. Others are refused: some people read K as 1024 and
others as 1000, and some read a small b as a bit.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import NamedTuple

_AMOUNT = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,6})?) ?([A-Za-z%]*)")
_POWERS = {letter: power for power, letter in enumerate("KMGT", 1)}
_UNITS = {"": 1, "B": 1, "kB": 1000} | {
    f"{letter}{end}": base**power for letter, power in _POWERS.items() for end, base in (("B", 1000), ("iB", 1024))
}
PERCENT_MAX = 100
NO_LIMIT = -1
"""The number that stands for no limit, where a limit is optional."""


class AmountError(ValueError):
    """A text that is not an amount; the error says why."""


class Amount(NamedTuple):
    """A number of messages or bytes; or, with `percent`, a percentage of a limit."""

    value: int
    percent: bool = False

    def __str__(self) -> str:
        return f"{self.value} %" if self.percent else str(self.value)

    def of(self, limit: int) -> int:
        """The amount as a number, given the limit that a percentage refers to."""
        return limit * self.value // PERCENT_MAX if self.percent else self.value


def size(text: str) -> int:
    """Parse a size in bytes. AmountError if the text is none."""
    number, unit = _split(text)
    if unit not in _UNITS:
        raise AmountError(_unit_problem(text, number, unit))
    return _whole(text, number * _UNITS[unit])


def count(text: str) -> int:
    """Parse a number of messages. AmountError if the text is none."""
    number, unit = _split(text)
    if unit:
        raise AmountError(f"'{text}' is not a number of messages")
    return _whole(text, number)


def percentage(text: str) -> int | None:
    """The number before a percent sign; None without such a sign. AmountError above 100 %."""
    if not text.endswith("%"):
        return None
    number, unit = _split(text)
    if unit != "%" or number > PERCENT_MAX:
        raise AmountError(f"'{text}' is not between 0 % and 100 %")
    return _whole(text, number)


def _split(text: str) -> tuple[Decimal, str]:
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        raise AmountError(f"'{text[:40]}' is not an amount: write it like 10000, 10 MB, 512 KiB or 80 %")
    return Decimal(found[1]), found[2]


def _whole(text: str, number: Decimal) -> int:
    if number != int(number):
        raise AmountError(f"'{text}' is not a whole number")
    return int(number)


def _unit_problem(text: str, number: Decimal, unit: str) -> str:
    power = _POWERS.get(unit[:1].upper(), 0)
    if not power or unit[1:].lower() not in ("", "b", "i", "ib"):
        return f"'{text}' has an unknown unit: there are B, kB, MB, GB, TB, KiB, MiB, GiB and TiB"
    letter = unit[0].upper()
    return f"the unit of '{text}' can be mistaken: write {number} {letter}B (1000^{power}) or {letter}iB (1024^{power})"
