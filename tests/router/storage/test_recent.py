"""The turns that a follower of the topology has missed, as far as they are known."""

from __future__ import annotations

import pytest

from router.storage import recent
from router.storage.recent import Recent


def frames(*versions: int) -> list[bytes]:
    return [b"%d" % version for version in versions]


def made(*versions: int) -> Recent:
    return Recent(zip(versions, frames(*versions), strict=True))


def test_what_leads_from_one_version_to_another() -> None:
    known = made(4, 5, 6)
    assert known.since(6, 6) == []
    assert known.since(4, 6) == frames(5, 6)
    assert known.since(3, 6) == frames(4, 5, 6)


@pytest.mark.parametrize("have", [-1, 0, 2, 7])
def test_what_is_not_known(have: int) -> None:
    assert made(4, 5, 6).since(have, 6) is None


def test_nothing_is_known_of_a_new_node() -> None:
    assert Recent().since(3, 4) is None
    assert Recent().since(-1, 0) is None
    assert Recent().since(4, 4) == []


def test_a_gap_is_no_way() -> None:
    assert made(4, 6).since(3, 6) is None
    assert made(4, 6).since(5, 6) == frames(6)


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "TURNS", 3)
    known = made(1, 2, 3, 4)
    assert known.since(0, 4) is None and known.since(1, 4) == frames(2, 3, 4)
    monkeypatch.setattr(recent, "BYTES", 10)
    known.add(5, bytes(9))
    assert known.since(3, 5) == [b"4", bytes(9)]
    known.add(6, bytes(11))
    assert known.since(5, 6) is None
