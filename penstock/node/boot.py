"""Which boot of the machine this is."""

from __future__ import annotations

from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """36 characters, others after each start of the machine."""
    return BOOT_ID.read_text().strip()
