"""Checks of the machine, as this process sees it: cores, memory, limits, shared memory, kernel."""

from __future__ import annotations

import os
import resource
import secrets
from pathlib import Path

from acceptor.sockets.listener import BACKLOG
from ops.doctor.finding import Finding, advice, ok, problem
from penstock.memory.gauges import Gauges
from penstock.memory.stale import SHARED_MEMORY
from penstock.settings import Settings
from penstock.settings.machine import half_the_cores, usable_cores, usable_memory
from penstock.settings.values import MIB

PROC = Path("/proc")
FILES_WANTED = 65536
FILES_LEAST = 1024
"""Below that, a few hundred clients use an acceptor up."""
SWAP_PERCENT = 10
MEMORY_PERCENT = 80
NEVER_OVERCOMMIT = 2
"""The value of vm.overcommit_memory with which a fork needs memory for a copy of all (proc(5))."""


def user(uid: int | None = None) -> Finding:
    """Check that the node will not run as root."""
    if (os.geteuid() if uid is None else uid) == 0:
        text = "root: a defect of the node would be one of the whole machine"
        return advice("user", text, "useradd --system penstock, and run it as that user")
    return ok("user", "not root")


def cores(settings: Settings) -> Finding:
    """Check that acceptors and shards have cores to run on."""
    usable = usable_cores()
    busy = settings.acceptors + settings.shards
    text = f"{usable}; acceptors: {settings.acceptors}, shards: {settings.shards}"
    if busy > max(usable, 2):
        half = half_the_cores()
        return advice("cores", text, f"--acceptors {half} --shards {half}, or more cores")
    return ok("cores", text)


def memory(settings: Settings, usable: int | None = None) -> Finding:
    """Check that the contents of queues fit into memory."""
    usable = usable_memory() if usable is None else usable
    text = f"contents may use {_mib(settings.memory_limit)} of {_mib(usable)}"
    fitting = f"--set memory_limit={usable * MEMORY_PERCENT // 100}"
    if settings.memory_limit > usable:
        return problem("memory", f"{text}: the kernel would kill the node", fitting)
    if settings.memory_limit * 100 > usable * MEMORY_PERCENT:
        return advice("memory", f"{text}, which leaves little for connections", fitting)
    return ok("memory", text)


def swap(proc: Path = PROC) -> Finding:
    """Check that memory is not swapped out: a broker that reads its memory from the disk stands still."""
    facts = dict(line.split(":") for line in (proc / "meminfo").read_text().splitlines())
    total, free = (int(facts[name].split()[0]) * 1024 for name in ("SwapTotal", "SwapFree"))
    if total and (total - free) * 100 > total * SWAP_PERCENT:
        text = f"{_mib(total - free)} of {_mib(total)} are in use"
        return advice("swap", text, "sysctl -w vm.swappiness=1, or fewer programs on this machine")
    return ok("swap", "hardly used" if total else "none")


def files(limits: tuple[int, int] | None = None) -> Finding:
    """Check how many connections the limit of open files allows: a node raises its own to the hard one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE) if limits is None else limits
    if hard == resource.RLIM_INFINITY:
        return ok("files", "no limit of open files")
    text = f"{hard} may be open in a process, about as many connections to each acceptor"
    remedy = f"LimitNOFILE={FILES_WANTED} in the unit of systemd; ulimit -Hn {FILES_WANTED} in a shell of root"
    if hard < FILES_LEAST:
        return problem("files", text, remedy)
    return advice("files", text, remedy) if hard < FILES_WANTED else ok("files", text)


def shared_memory(settings: Settings, directory: Path = SHARED_MEMORY) -> Finding:
    """Check that the gauges have room in shared memory, by making them."""
    path = directory / f"penstock-doctor-{secrets.token_hex(8)}"
    remedy = f"mount -o remount,size=256m {directory}; for a container, --shm-size=256m"
    try:
        with Gauges.create(
            path, epoch=1, acceptors=settings.acceptors, shards=settings.shards + settings.spare_shards,
            queues=settings.max_queues, pid=os.getpid(),
        ):  # fmt: skip
            wanted = path.stat().st_size
            free = os.statvfs(directory).f_bavail * os.statvfs(directory).f_frsize
    except OSError as error:
        return problem("shared memory", f"cannot make a file in {directory}: {error.strerror}", remedy)
    finally:
        path.unlink(missing_ok=True)
    text = f"{_mib(free)} free in {directory}, of which the gauges of {settings.max_queues} queues need {_mib(wanted)}"
    if wanted > free:
        return problem("shared memory", text, f"{remedy}; or a smaller max_queues")
    return ok("shared memory", text)


def backlog(proc: Path = PROC) -> Finding:
    """Check how many clients may wait to be accepted, as after a restart of the node."""
    most = int((proc / "sys/net/core/somaxconn").read_text())
    text = f"{min(most, BACKLOG)} clients may wait to be accepted"
    if most < BACKLOG:
        return advice("backlog", text, f"sysctl -w net.core.somaxconn={BACKLOG}")
    return ok("backlog", text)


def overcommit(proc: Path = PROC) -> Finding:
    """Check that the node can fork its processes, which share the memory of one template."""
    if int((proc / "sys/vm/overcommit_memory").read_text()) == NEVER_OVERCOMMIT:
        text = "the kernel promises no more memory than there is: a fork may fail with much memory free"
        return advice("overcommit", text, "sysctl -w vm.overcommit_memory=0")
    return ok("overcommit", "processes can be forked")


def _mib(nbytes: int) -> str:
    return f"{nbytes / MIB:,.0f} MiB"
