"""The accounts of the ledger: for how long producers were held, summed up over acceptors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

Facts = dict[str, Any]
By = Literal["connection", "user", "vhost", "exchange", "queue"]


def summed(entries: Iterable[Facts], by: By) -> list[Facts]:
    """Return the accounts of a kind, {by, vhost, name, seconds, stops}, those held for the longest first. Entries are
    the answers `ledger` of acceptors (`acceptor.holding.ledger`).
    """
    accounts: dict[tuple[str, str], Facts] = {}
    for each in entries:
        if each["by"] == by:
            account = accounts.setdefault((each["vhost"], each["name"]), {**each, "seconds": 0.0, "stops": 0})
            account["seconds"] = round(account["seconds"] + each["seconds"], 3)
            account["stops"] += each["stops"]
    return sorted(accounts.values(), key=lambda account: -account["seconds"])
