"""Checks all stores of a data directory, one after the other: an unreadable store does not hide the others."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path

from ops.errors import CommandError
from ops.store.apart import apart
from ops.store.check import Findings, check
from ops.store.opened import forget_reader, store_paths
from ops.store.topology import check_topology
from shard.store.environment import FILE_NAME


def check_all(data: Path, live: bool) -> tuple[list[Findings], list[str]]:
    """Return the findings in each store, and the problems of the topology. CommandError if stores cannot be listed.

    `live`: a node has them open. A store that it discards meanwhile is left out.
    """
    problems = check_topology(data)
    found = []
    for shard, path in store_paths(data):
        try:
            found.append(apart(f"the store {path}", partial(check, path, shard, live)))
        except CommandError as error:
            if live:
                with suppress(CommandError):  # it says no more than this one
                    apart(f"the store {path}", partial(forget_reader, path))
                if not (path / FILE_NAME).exists():
                    continue
            found.append(Findings(shard, str(path), problems=1, first_problems=[str(error)]))
    return found, problems
