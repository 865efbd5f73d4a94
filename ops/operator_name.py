"""The name under which an operator's actions are recorded."""

from __future__ import annotations

import getpass
import os


def operator_name() -> str:
    """Return the name of the user who runs the command; its number if it has none, as users of containers may."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # Python 3.13 has made it an OSError
        return f"uid {os.getuid()}"
