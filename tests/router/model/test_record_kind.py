"""The changes that make and remove records, and the records of one kind by their keys."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from router.model.record_kind import Record, Records, of_kind


@of_kind("pair", "pairs", key=2, flags=("on",), packed=("facts",))
@dataclass(frozen=True, slots=True)
class Pair(Record):
    """A record whose key has two fields; `derived` is no field of its changes."""

    one: str
    other: str
    on: bool
    facts: list[int] = field(hash=False)
    derived: int = field(default=7, init=False)


@of_kind("setting", "settings", key=1, void=(None,))
@dataclass(frozen=True, slots=True)
class Setting(Record):
    """A record that is not kept if its value is None."""

    name: str
    value: int | None


def test_a_change_has_the_fields_in_the_order_of_the_class() -> None:
    facts = [1, 2]
    change = Pair("a", "b", True, facts).change()
    assert change == ["pair", "a", "b", True, [1, 2]]
    assert change[-1] is facts, "lists and maps are shared"
    assert Setting("a", 5).change() == ["setting", "a", 5]
    several = [Setting("a", 5), Setting("b", 6)]
    assert list(Setting.record_kind.changes(several)) == [each.change() for each in several]


def test_a_record_is_removed_by_its_key_or_by_a_void_value() -> None:
    assert Pair("a", "b", True, []).change_gone() == ["pair_gone", "a", "b"]
    assert Setting("a", 5).change_gone() == ["setting", "a", None]


def test_records_are_kept_by_the_one_field_of_their_key_or_by_all_of_them() -> None:
    settings: Records[str, Setting] = Records()
    settings.put(Setting("a", 5))
    settings.put(Setting("a", 6))
    assert settings == {"a": Setting("a", 6)}
    pairs: Records[tuple[str, str], Pair] = Records()
    pairs.put(Pair("a", "b", True, []))
    assert list(pairs) == [("a", "b")]
    settings.remove("a")
    pairs.remove("a", "b")
    assert not settings and not pairs
    with pytest.raises(KeyError):
        pairs.remove("a", "b")


def test_changes_of_the_records_are_counted() -> None:
    settings: Records[str, Setting] = Records()
    counts = [settings.changed]
    for change in (lambda: settings.put(Setting("a", 5)), lambda: settings.remove("a"), settings.clear):
        change()
        counts.append(settings.changed)
    assert counts == sorted(set(counts))
