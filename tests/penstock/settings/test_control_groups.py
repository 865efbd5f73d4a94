"""Limits of control groups, of both versions, nested and in containers; the trees are made for the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.settings.control_groups import cores_limit, memory_limit

MIB = 1 << 20
NO_LIMIT = "9223372036854771712"
"""The value of version 1 where there is no limit."""


class Machine:
    """A process's view of its machine: /proc/self and mounted trees, below a directory."""

    def __init__(self, root: Path, cgroup: str, mounts: list[str]) -> None:
        self.root = root
        self.process = root / "proc"
        self.process.mkdir()
        (self.process / "cgroup").write_text(cgroup)
        lines = [f"3{n} 2 0:2{n} {mount.replace('ROOT', str(root))}" for n, mount in enumerate(mounts)]
        (self.process / "mountinfo").write_text("".join(f"{line}\n" for line in lines))

    def say(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def limits(self) -> tuple[int | None, float | None]:
        return memory_limit(self.process), cores_limit(self.process)


V2 = ["/ ROOT/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate"]
V1 = [
    "/ ROOT/memory rw shared:1 - cgroup cgroup rw,memory",
    "/ ROOT/cpu rw shared:2 - cgroup cgroup rw,cpu,cpuacct",
    "/ ROOT/unified rw shared:3 - cgroup2 cgroup2 rw",
]
V1_MEMBER = "9:memory:/a/b\n4:cpuacct,cpu:/a/b\n1:name=systemd:/x\n0::/\n"


def test_none_at_all(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "", [])
    assert machine.limits() == (None, None)
    assert memory_limit(tmp_path / "nowhere") is None


def test_version_2_without_limits(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "0::/system.slice/penstock.service\n", V2)
    machine.say("cgroup/system.slice/penstock.service/memory.max", "max")
    machine.say("cgroup/system.slice/penstock.service/cpu.max", "max 100000")
    assert machine.limits() == (None, None)


@pytest.mark.parametrize("where", ["system.slice/penstock.service", "system.slice"])
def test_version_2_nested(tmp_path: Path, where: str) -> None:
    machine = Machine(tmp_path, "0::/system.slice/penstock.service\n", V2)
    machine.say("cgroup/system.slice/memory.max", str(900 * MIB))
    machine.say("cgroup/system.slice/penstock.service/cpu.max", "max 100000")
    machine.say(f"cgroup/{where}/memory.max", str(600 * MIB))
    machine.say(f"cgroup/{where}/cpu.max", "150000 100000")
    assert machine.limits() == (600 * MIB, 1.5)


@pytest.mark.parametrize("top", ["/", "/docker/1f"])
def test_a_container_that_sees_its_own_group_alone(tmp_path: Path, top: str) -> None:
    machine = Machine(tmp_path, "0::/docker/1f\n", [V2[0].replace("/ ROOT", f"{top} ROOT")])
    machine.say(f"cgroup/{'docker/1f/' if top == '/' else ''}memory.max", str(600 * MIB))
    assert machine.limits() == (600 * MIB, None)


def test_a_group_that_is_not_below_what_is_mounted(tmp_path: Path) -> None:
    """In a container that sees the host's /proc, the mounted tree is the group."""
    machine = Machine(tmp_path, "0::/elsewhere\n", [V2[0].replace("/ ROOT", "/docker/1f ROOT")])
    machine.say("cgroup/memory.max", str(600 * MIB))
    assert machine.limits() == (600 * MIB, None)


def test_version_1(tmp_path: Path) -> None:
    machine = Machine(tmp_path, V1_MEMBER, V1)
    machine.say("memory/memory.limit_in_bytes", NO_LIMIT)
    machine.say("memory/a/memory.limit_in_bytes", str(600 * MIB))
    machine.say("memory/a/b/memory.limit_in_bytes", NO_LIMIT)
    machine.say("cpu/a/cpu.cfs_quota_us", "-1")
    machine.say("cpu/a/cpu.cfs_period_us", "100000")
    machine.say("cpu/a/b/cpu.cfs_quota_us", "50000")
    machine.say("cpu/a/b/cpu.cfs_period_us", "100000")
    assert machine.limits() == (600 * MIB, 0.5)


def test_a_mount_point_with_a_space(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "0::/\n", [V2[0].replace("ROOT/cgroup", r"ROOT/c\040group")])
    machine.say("c group/memory.max", str(600 * MIB))
    assert machine.limits() == (600 * MIB, None)
