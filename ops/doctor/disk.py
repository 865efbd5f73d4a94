"""Checks of the disk: its file system, its room, and whether and how soon it flushes what it is given."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from pwd import getpwuid
from statistics import median
from tempfile import TemporaryFile

from ops.doctor.finding import Finding, advice, ok, problem
from penstock.settings import Settings
from penstock.settings.machine import free_disk, stored_bytes
from penstock.settings.values import MIB

MOUNTS = Path("/proc/self/mountinfo")
NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "glusterfs", "fuse.glusterfs", "fuse.sshfs", "afs"})
MEMORY = frozenset({"tmpfs", "ramfs"})
LAYERS = frozenset({"overlay", "aufs"})
FLUSHES = 50
FLUSH_SECONDS = 2.0
"""How long the disk is tried at most."""
FLUSHED_BYTES = 4096
HONEST_US = 30
"""A flush that takes less has not reached any disk: those of the fastest take about as long, those of most a hundred
times as long."""
SLOW_US = 20_000


def existing(data: Path) -> Path:
    """Return the directory, or the nearest one above it that exists."""
    return next(each for each in (data, *data.parents) if each.is_dir())


def directory(data: Path) -> Finding:
    """Check that the data directory is this user's, or can be made."""
    if data.exists() and not data.is_dir():
        return problem("data", f"{data} is not a directory", "another --data DIR")
    there = existing(data)
    if not os.access(there, os.W_OK | os.X_OK):
        return problem("data", f"{there} is not writable", f"chown $(id -un) {there}, as root; or another --data DIR")
    if data.is_dir() and data.stat().st_uid != os.geteuid():
        owner = owner_of(data)
        text = f"{data} belongs to the user {owner}"
        return problem("data", text, f"sudo -u {owner} penstock doctor …; or chown -R $(id -un) {data}, if it is yours")
    return ok("data", f"{data}" if data.is_dir() else f"{data} will be made")


def owner_of(path: Path) -> str:
    """Return the name of the user whom a file belongs to; the number if it has no name."""
    number = path.stat().st_uid
    try:
        return getpwuid(number).pw_name
    except KeyError:
        return str(number)


def file_system(data: Path, mounts: Path = MOUNTS) -> Finding:
    """Check that the file system keeps what it is given, and can be mapped into memory."""
    kind = _kind(existing(data).resolve(), mounts)
    if kind in NETWORK:
        text = f"{kind}: stores are mapped into memory, which a file system of the network does not keep consistent"
        return problem("file system", text, "a disk of this machine: another --data DIR")
    if kind in MEMORY:
        return advice("file system", f"{kind}: gone with the machine's memory", "a disk: another --data DIR")
    if kind in LAYERS:
        return advice("file system", f"{kind}: gone with the container", "a volume, mounted there")
    return ok("file system", kind)


def room(settings: Settings) -> Finding:
    """Check that the disk has room for as much as the stores may keep."""
    usable = free_disk(settings.data) + stored_bytes(settings.data)
    text = f"stores may use {settings.store.limit // MIB:,} of {usable // MIB:,} MiB"
    if settings.store.limit > usable:
        return problem("room", f"{text}: the disk fills up before producers are held", "a smaller store.limit")
    return ok("room", text)


def flushes(data: Path, microseconds: Sequence[float] | None = None) -> Finding:
    """Check how long a flush to the disk takes; persistent messages are confirmed after one."""
    try:
        took = _flushes_us(existing(data)) if microseconds is None else microseconds
    except OSError as error:
        return problem("flush", f"cannot write to {existing(data)}: {error.strerror}", "another --data DIR")
    usual, longest = median(took), max(took)
    text = f"{usual:,.0f} µs to flush 4 KiB, at most {longest:,.0f} of {len(took)} times"
    if usual < HONEST_US:
        text += ": too soon for a disk, so a power cut may lose what was confirmed"
        return advice("flush", text, "a disk whose cache is flushed, or does without power; no LD_PRELOAD=libeatmydata")
    if usual > SLOW_US:
        remedy = "a faster disk; or store.durability=interval=20ms, with which a power cut may lose as much"
        return advice("flush", f"{text}: each confirm of persistent messages takes as long", remedy)
    return ok("flush", text)


def _kind(path: Path, mounts: Path) -> str:
    """Return the type of the file system of a directory (proc(5), mountinfo): that of the last mount above it."""
    found = ("unknown", 0)
    for line in mounts.read_text().splitlines():
        mount, _, source = line.partition(" - ")
        point = Path(mount.split()[4].encode().decode("unicode_escape"))
        if path.is_relative_to(point) and len(point.parts) >= found[1]:
            found = (source.split()[0], len(point.parts))
    return found[0]


def _flushes_us(where: Path) -> list[float]:
    with TemporaryFile(dir=where) as file:
        took: list[float] = []
        block, ends = os.urandom(FLUSHED_BYTES), time.monotonic() + FLUSH_SECONDS
        while len(took) < FLUSHES and (not took or time.monotonic() < ends):
            begun = time.perf_counter_ns()
            os.write(file.fileno(), block)
            os.fdatasync(file.fileno())
            took.append((time.perf_counter_ns() - begun) / 1000)
        return took
