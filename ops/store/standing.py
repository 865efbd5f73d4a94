"""Checks whether a node may be started on the stores of its data directory."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ops.errors import StartError
from ops.store.opened import FOLDER
from ops.store.recognition import Standing, recognise


def check_standing(data: Path, shards: Collection[int]) -> Standing:
    """Return the state of the stores. StartError if one is damaged, foreign or missing, or has messages of a shard that
    the node does not have.
    """
    standing = recognise(data)
    needed = max((index + 1 for index in standing.needed() if index not in shards), default=0)
    if needed > max(shards):
        raise StartError(
            f"{data} has messages of {needed} shards, the node would have {len(shards)}: "
            f"start it with --shards {needed}"
        )
    if needed:
        raise StartError(f"{data}/{FOLDER}/{needed - 1} has messages, and there is no such shard: move it elsewhere")
    return standing
