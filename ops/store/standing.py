"""Whether a node may be started on the stores that its data directory has."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from pathlib import Path

from ops.errors import CommandError, StartError
from ops.store.apart import apart
from ops.store.opened import FOLDER, opened, store_paths


def check_standing(data: Path, shards: Collection[int]) -> None:
    """StartError if a store is damaged or foreign, or if there are messages in one of a shard that the node has not."""
    needed = 0
    try:
        for index, path in store_paths(data):
            if apart(f"the store {path}", partial(_has_messages, path, index)) and index not in shards:
                needed = index + 1
    except CommandError as error:
        raise StartError(str(error)) from None
    if needed > max(shards):
        raise StartError(
            f"{data} has messages of {needed} shards, the node would have {len(shards)}: "
            f"start it with --shards {needed}"
        )
    if needed:
        raise StartError(f"{data}/{FOLDER}/{needed - 1} has messages, and there is no such shard: move it elsewhere")


def _has_messages(path: Path, shard: int) -> bool:
    with opened(path, shard) as store:
        return any(store.entries(name) for name in ("index", "prepared", "decisions"))
