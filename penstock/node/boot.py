"""Identifies the current boot of the machine."""

from __future__ import annotations

from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """The kernel's boot id: 36 characters that differ after each boot."""
    return BOOT_ID.read_text().strip()
