"""Limits of memory and CPU set by this process's control groups: those of systemd, of containers, and nested ones.

Version 2 has one tree for everything (cgroups(7), "0::/path" in /proc/self/cgroup); version 1 one for each controller
("4:memory:/path"). A limit applies to all groups below it, so the smallest one on the way up counts.
/proc/self/mountinfo (proc(5)) says where a tree is mounted, and from which group on: in a container that is often the
process's own group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

MEMORY, CPU = "memory", "cpu"
NO_LIMIT = 1 << 62
"""Version 1 reports a number of this size where there is no limit."""


class Mount(NamedTuple):
    """A mounted tree: the group at its top, its mount point, and its controllers (empty for version 2)."""

    top: PurePosixPath
    point: Path
    controllers: frozenset[str]


def memory_limit(process: Path = Path("/proc/self")) -> int | None:
    """Bytes of memory that the groups allow this process; None where they set no limit."""
    found = [
        *_numbers(process, MEMORY, True, lambda group: int((group / "memory.max").read_text())),
        *_numbers(process, MEMORY, False, lambda group: int((group / "memory.limit_in_bytes").read_text())),
    ]
    return int(min(found)) if found and min(found) < NO_LIMIT else None


def cores_limit(process: Path = Path("/proc/self")) -> float | None:
    """CPU time that the groups allow this process, in cores; None where they set no limit."""

    def quota(group: Path) -> float:
        share, period = (group / "cpu.max").read_text().split()
        return int(share) / int(period)

    def quota_of_version_1(group: Path) -> float:
        share = int((group / "cpu.cfs_quota_us").read_text())
        if share < 0:
            raise ValueError
        return share / int((group / "cpu.cfs_period_us").read_text())

    found = [*_numbers(process, CPU, True, quota), *_numbers(process, CPU, False, quota_of_version_1)]
    return min(found) if found else None


def _numbers(process: Path, controller: str, version_2: bool, read: Callable[[Path], float]) -> Iterator[float]:
    """Yield the limits of the process's group of a controller and of all groups above it. Groups without a limit yield
    nothing: they have no such file, or it holds the word "max".
    """
    for group in _groups(process, controller, version_2):
        try:
            yield read(group)
        except (OSError, ValueError):
            continue


def _groups(process: Path, controller: str, version_2: bool) -> Iterator[Path]:
    """Yield the directories of the process's group and of the groups above it, as far as they are mounted here."""
    path = _path(process, controller, version_2)
    if path is None:
        return
    for mount in _mounts(process):
        if (not mount.controllers) == version_2 and (version_2 or controller in mount.controllers):
            below = path.relative_to(mount.top) if path.is_relative_to(mount.top) else PurePosixPath()
            group = mount.point / below
            yield group
            yield from (parent for parent in group.parents if parent.is_relative_to(mount.point))


def _path(process: Path, controller: str, version_2: bool) -> PurePosixPath | None:
    for line in _lines(process / "cgroup"):
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers if version_2 else controller in controllers.split(","):
            return PurePosixPath(path)
    return None


def _mounts(process: Path) -> Iterator[Mount]:
    for line in _lines(process / "mountinfo"):
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            top, point = (field.encode().decode("unicode_escape") for field in before.split(" ")[3:5])
            controllers = frozenset(options.split(",")) if kind == "cgroup" else frozenset[str]()
            yield Mount(PurePosixPath(top), Path(point), controllers)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
