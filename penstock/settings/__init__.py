"""All settings of a node: one typed model, read at start (`penstock.settings.sources`). `penstock.settings.changes`
says which of them can change while the node runs.

The model is imported when it is first used: that takes longer than most commands, which need none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.settings.model import Settings

__all__ = ["Settings"]


def __getattr__(name: str) -> Any:
    if name != "Settings":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from penstock.settings.model import Settings

    return Settings
