"""Debian systems that systemd boots, each in namespaces and a control group of its own."""

from __future__ import annotations

import uuid
from pathlib import Path

from tests.ops.setup.chroot import ENTER, UNPACK, Chroot
from tests.waiting import wait_for

CONTROL_GROUPS = next((path for path in map(Path, ("/sys/fs/cgroup/unified", "/sys/fs/cgroup"))
                       if (path / "cgroup.procs").exists()), None)  # fmt: skip
"""The hierarchy of version 2; None if this machine has none."""
BOOT = f"""{UNPACK}
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for name in null zero full random urandom tty; do
    touch "$root/dev/$name"
    mount --bind "/dev/$name" "$root/dev/$name"
done
mkdir "$root/dev/pts"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
{ENTER}
exec env -i container=penstock /lib/systemd/systemd >/dev/null 2>&1
"""
"""As the container interface of systemd asks for it (https://systemd.io/CONTAINER_INTERFACE): it may not set variables
of the kernel, and has no devices but these.
"""
KEEP = """
group=$1
shift
mkdir "$group"
echo $$ >"$group/cgroup.procs"
"$@" </dev/null &
echo $$ >"$group/../cgroup.procs"
cat
echo 1 >"$group/cgroup.kill"
wait
until find "$group" -depth -type d -exec rmdir {} + 2>/dev/null; do sleep 0.1; done
"""
"""Begins a system in a control group, and removes both when standard input ends."""


class Booted(Chroot):
    """A system that systemd has booted. It reaches no network but its own loopback."""

    NAMESPACES = ("--mount", "--pid", "--cgroup", "--ipc", "--uts", "--net")

    def __init__(self, directory: Path, archive: Path) -> None:
        super().__init__(directory, archive)
        wait_for(lambda: self.run("systemctl", "is-system-running").stdout == "running\n", what="the end of the boot")

    def begin(self, *arguments: str) -> list[str]:
        """Return the command that boots the system."""
        assert CONTROL_GROUPS
        group = str(CONTROL_GROUPS / f"penstock-test-{uuid.uuid4().hex[:8]}")
        inside = ["unshare", *self.NAMESPACES, "--fork", "--kill-child", "sh", "-ec", BOOT, "sh", *arguments]
        return ["sh", "-c", KEEP, "sh", group, *inside]

    def property(self, name: str) -> str:
        """Return a property of the service penstock (systemctl(1), `show`)."""
        return self.output("systemctl", "show", "--value", "--property", name, "penstock").strip()

    def journal(self) -> str:
        """Return what the service has logged."""
        return self.output("journalctl", "--quiet", "--output=cat", "--unit=penstock")
