"""The id of the machine's boot."""

from __future__ import annotations

import subprocess
import sys
from uuid import UUID

from penstock.node.boot import boot_id


def test_all_processes_of_a_boot_read_the_same_id() -> None:
    """A UUID made anew for each reader (as in `random/uuid`) would look like a reboot."""
    program = "from penstock.node.boot import boot_id; print(boot_id(), end='')"
    other = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert boot_id() == other == boot_id()


def test_an_id_is_36_characters_without_a_newline() -> None:
    assert str(UUID(boot_id())) == boot_id() and len(boot_id()) == 36
