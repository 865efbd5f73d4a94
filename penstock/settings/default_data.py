"""The default data directory."""

from __future__ import annotations

import os
from pathlib import Path


def default_data() -> Path:
    """The user's data directory for penstock (XDG base directory specification)."""
    home = os.environ.get("XDG_DATA_HOME", "")
    base = Path(home) if os.path.isabs(home) else Path("~/.local/share").expanduser()
    return base / "penstock"
