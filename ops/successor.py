"""A supervisor that takes the place of another one, as variables of its environment say (`ops.succession`)."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path
from typing import NamedTuple

RUNTIME, TRIAL = "_PENSTOCK_RUNTIME", "_PENSTOCK_TRIAL"


class Successor(NamedTuple):
    """The runtime directory of the node that it supervises, and whether it only tries whether it could."""

    runtime: Path
    is_trial: bool

    @classmethod
    def take(cls, variables: MutableMapping[str, str] = os.environ) -> Successor | None:
        """Take the variables out of the environment; None if this supervisor is to start a node."""
        runtime, is_trial = variables.pop(RUNTIME, ""), bool(variables.pop(TRIAL, ""))
        return cls(Path(runtime), is_trial) if runtime else None
