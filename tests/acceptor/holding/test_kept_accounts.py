"""Accounts that a killed acceptor leaves to its next incarnation."""

from __future__ import annotations

from pathlib import Path

import pytest

from acceptor.holding import ledger
from acceptor.holding.kept_accounts import KeptAccounts
from acceptor.holding.ledger import Ledger


def accounts(ledger: Ledger) -> dict[tuple[str, str, str], tuple[float, int]]:
    reported = ledger.report(0.0)
    return {(each["by"], each["vhost"], each["name"]): (each["seconds"], each["stops"]) for each in reported}


def filled(queues: int = 2) -> Ledger:
    ledger = Ledger()
    ledger.enter("connection", ("", "0.1.1"), 7.0)
    ledger.enter("user", ("", "guest"), 7.0, 3)
    for number in range(1, queues + 1):
        ledger.enter("queue", ("/", f"q{number}"), float(number))
    return ledger


def test_the_next_incarnation_goes_on_with_all_but_connections(tmp_path: Path) -> None:
    KeptAccounts(tmp_path, 0).keep(filled(), 0.0)
    later, other = Ledger(), Ledger()
    KeptAccounts(tmp_path, 0).take_over(later)
    KeptAccounts(tmp_path, 1).take_over(other)
    expected = {("user", "", "guest"): (7.0, 3), ("queue", "/", "q1"): (1.0, 1), ("queue", "/", "q2"): (2.0, 1)}
    assert accounts(later) == expected and accounts(other) == {}
    later.enter("queue", ("/", "q1"), 1.5)
    assert accounts(later)["queue", "/", "q1"] == (2.5, 2)
    KeptAccounts(tmp_path, 0).forget()
    KeptAccounts(tmp_path, 0).take_over(other)
    assert accounts(other) == {}


def test_of_many_the_largest_are_kept_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "KEPT_MOST", 3)
    KeptAccounts(tmp_path, 0).keep(filled(queues=5), 0.0)
    later = Ledger()
    KeptAccounts(tmp_path, 0).take_over(later)
    queues = {name: entry for (by, _, name), entry in accounts(later).items() if by == "queue"}
    assert queues == {"q5": (5.0, 1), "q4": (4.0, 1), "q3": (3.0, 1), "others": (3.0, 2)}


@pytest.mark.parametrize("content", [b"", b"[", b"5", b"[5]", b'[{"by": "nobody", "vhost": "", "name": "q"}]'])
def test_a_file_that_cannot_be_read_costs_what_is_in_it(tmp_path: Path, content: bytes) -> None:
    KeptAccounts(tmp_path, 0).keep(filled(), 0.0)
    (tmp_path / "accounts" / "acceptor.0.json").write_bytes(content)
    later = Ledger()
    damaged = KeptAccounts(tmp_path, 0)
    damaged.take_over(later)
    assert accounts(later) == {}
    damaged.keep(filled(), 0.0)
    KeptAccounts(tmp_path, 0).take_over(later)
    assert accounts(later)["user", "", "guest"] == (7.0, 3)
