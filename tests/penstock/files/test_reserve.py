"""Disk space reserved for the next start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from penstock.files import reserve

LIMITED = """
import resource, sys
from pathlib import Path
from penstock.files import reserve
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), -1))
reserve.keep(Path(sys.argv[1]), 0)
"""


def test_it_is_allocated_and_given_back(tmp_path: Path) -> None:
    reserve.keep(tmp_path, 5000)
    kept = (tmp_path / reserve.FILE_NAME).stat()
    assert kept.st_size == reserve.SIZES[0] + 5000 and kept.st_blocks * 512 >= kept.st_size
    assert kept.st_mode & 0o777 == 0o600
    reserve.keep(tmp_path, 0)
    assert (tmp_path / reserve.FILE_NAME).stat().st_size == kept.st_size
    for _ in range(2):
        reserve.give_back(tmp_path)
        assert list(tmp_path.iterdir()) == []


def limited(data: Path, nbytes: int) -> None:
    """Make the reserve as on a disk with room for only `nbytes`."""
    subprocess.run([sys.executable, "-c", LIMITED, str(data), str(nbytes)], check=True)


def test_it_is_as_large_as_there_is_room_for(tmp_path: Path) -> None:
    limited(tmp_path, reserve.SIZES[-1] + 1)
    assert (tmp_path / reserve.FILE_NAME).stat().st_size == reserve.SIZES[-1]


def test_there_is_none_without_room(tmp_path: Path) -> None:
    limited(tmp_path, 100)
    assert list(tmp_path.iterdir()) == []
