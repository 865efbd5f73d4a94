"""What the control groups of this process leave it of the machine: those of systemd, containers and nested ones.

Version 2 has one tree for everything (cgroups(7), "0::/path" in /proc/self/cgroup); version 1 one for each controller
("4:memory:/path"). A limit counts for all groups below it, so the smallest one on the way up is meant. Where a tree is
mounted, and from which group on, is in /proc/self/mountinfo (proc(5)): in a container that is often the group itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

MEMORY, CPU = "memory", "cpu"
NO_LIMIT = 1 << 62
"""Where there is none, version 1 has a number of this size."""


class Mount(NamedTuple):
    """A mounted tree: the group at its top, its place in the file system, and its controllers, none of version 2."""

    top: PurePosixPath
    point: Path
    controllers: frozenset[str]


def memory_limit(process: Path = Path("/proc/self")) -> int | None:
    """Bytes of memory that the groups leave this process, None where they set no limit."""
    found = [
        *_numbers(process, MEMORY, True, lambda group: int((group / "memory.max").read_text())),
        *_numbers(process, MEMORY, False, lambda group: int((group / "memory.limit_in_bytes").read_text())),
    ]
    return int(min(found)) if found and min(found) < NO_LIMIT else None


def cores_limit(process: Path = Path("/proc/self")) -> float | None:
    """Cores' worth of time that the groups leave this process, None where they set no limit."""

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
    """What is read of the process's group of a controller and of all above it. Those without a limit give nothing:
    they have no such file, or the word "max" in it.
    """
    for group in _groups(process, controller, version_2):
        try:
            yield read(group)
        except (OSError, ValueError):
            continue


def _groups(process: Path, controller: str, version_2: bool) -> Iterator[Path]:
    """The directories of the process's group and of those above it, as far as they can be seen from here."""
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
