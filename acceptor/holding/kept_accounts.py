"""The accounts of an acceptor's ledger, in a file for its next incarnation, as a killed one can no longer report them.

The file is at most a second old. It lacks the accounts of connections, which end with the process. The first
incarnation in a run of the node starts with no accounts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from acceptor.holding.ledger import Ledger
from penstock.files.atomic_file import AtomicFile
from penstock.node.logs import get_logger

log = get_logger()


class KeptAccounts:
    """The kept accounts of one acceptor, in the data directory of its node."""

    def __init__(self, data: Path, index: int) -> None:
        self._file = AtomicFile(data / "accounts" / f"acceptor.{index}.json", "for how long producers were held")

    def take_over(self, ledger: Ledger) -> None:
        """Enter the accounts that the previous incarnation has left; if they cannot be read, enter none and log a
        warning.
        """
        try:
            for each in self._file.read():
                ledger.enter(*_account(each))
        except (OSError, ValueError, LookupError, TypeError) as error:
            log.warning("the hold times of producers are lost", path=str(self._file.path), problem=str(error))

    def keep(self, ledger: Ledger, now: float) -> None:
        """Write the ledger's accounts to the file."""
        self._file.keep(ledger.kept(now))

    def forget(self) -> None:
        """Remove the file of an earlier run of the node."""
        try:
            self._file.path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("accounts of an earlier run remain", path=str(self._file.path), problem=error.strerror)


def _account(record: dict[str, Any]) -> tuple[str, tuple[str, str], float, int]:
    """Return by what, vhost and name, seconds and stops. LookupError, TypeError or ValueError if the record is
    malformed.
    """
    return record["by"], (str(record["vhost"]), str(record["name"])), float(record["seconds"]), int(record["stops"])
