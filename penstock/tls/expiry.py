"""When the end of a certificate is near enough to be said: by acceptors in the log, by commands in their answers."""

from __future__ import annotations

SOON_SECONDS = 30 * 86400.0
"""How long before it expires a certificate counts as one that soon does."""
