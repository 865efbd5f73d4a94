"""The accounts of an acceptor's ledger, in a file for its next life: one that is killed cannot say them any more.

The file has them as they were at most a second ago, without those of connections, which end with it. The first life in
a run of the node begins with none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from acceptor.ledger import Ledger
from penstock.files.kept_file import KeptFile
from penstock.node.logs import get_logger

log = get_logger()


class KeptAccounts:
    """Those of one acceptor, in the data directory of its node."""

    def __init__(self, data: Path, index: int) -> None:
        self._file = KeptFile(data / "accounts" / f"acceptor.{index}.json", "for how long producers were held")

    def take_over(self, ledger: Ledger) -> None:
        """Enter what the life before has left; nothing, and a warning, if it cannot be read."""
        try:
            for each in self._file.read():
                ledger.enter(*_account(each))
        except (OSError, ValueError, LookupError, TypeError) as error:
            log.warning("for how long producers were held is lost", path=str(self._file.path), problem=str(error))

    def keep(self, ledger: Ledger, now: float) -> None:
        self._file.keep(ledger.kept(now))

    def forget(self) -> None:
        """Drop what an earlier run of the node has left."""
        try:
            self._file.path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("the accounts of an earlier run stay", path=str(self._file.path), problem=error.strerror)


def _account(record: dict[str, Any]) -> tuple[str, tuple[str, str], float, int]:
    """By, vhost and name, seconds, stops. LookupError, TypeError or ValueError if it says none."""
    return record["by"], (str(record["vhost"]), str(record["name"])), float(record["seconds"]), int(record["stops"])
