"""Debian systems in memory, each in namespaces of its own: no process, mount or file of them outlives its test."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import psutil

UNPACK = """
root=$1 archive=$2
mount -t tmpfs -o mode=755 tmpfs "$root"
tar -x -C "$root" -f "$archive" --exclude './dev/*'
mount -t proc proc "$root/proc"
"""
ENTER = """
cd "$root"
mkdir old
pivot_root . old
umount -l old
rmdir old
echo begun
"""
BEGIN = f"""{UNPACK}
shift 2
mount --rbind /dev "$root/dev"
for folder; do
    mkdir "$root/${{folder##*/}}"
    mount --bind "$folder" "$root/${{folder##*/}}"
done
{ENTER}
exec cat
"""
"""cat is process 1. It ends when the test closes its standard input, however the test ends, and all others with it."""
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}


def bootstrap(archive: Path, *options: str, suite: str) -> None:
    """Make a system of Debian's with mmdebstrap, as an archive, unless there is one. apt's own settings for the way to
    its servers are those of this machine.
    """
    if archive.exists():
        return
    way = ("apt-config", "dump", "--no-empty", "--format", '%f "%v";%n', "Acquire::http", "Acquire::https")
    settings = subprocess.run(way, capture_output=True, text=True, check=True).stdout.splitlines()
    made = archive.with_suffix(".new")
    in_memory = ("unshare", "--mount", "sh", "-ec", 'mount -t tmpfs tmpfs /tmp; exec "$@"', "sh")
    with made.open("wb") as output:
        command = ["mmdebstrap", "--quiet", *options, *(f"--aptopt={each}" for each in settings), suite, "-"]
        subprocess.run([*in_memory, *command], cwd="/", env={**ENVIRONMENT}, stdout=output, check=True)
    made.rename(archive)


class Chroot:
    """A system that begins as the archive is. The `folders` are at its top, under their names."""

    NAMESPACES: tuple[str, ...] = ("--mount", "--pid")

    def __init__(self, directory: Path, archive: Path, *folders: Path) -> None:
        command = self.begin(str(directory), str(archive), *map(str, folders))
        self._outside = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._outside.stdout is not None
        begun = self._outside.stdout.readline()
        assert begun == b"begun\n", self._outside.wait()
        below = psutil.Process(self._outside.pid).children(recursive=True)
        (self.first,) = (each.pid for each in below if psutil.Process(each.ppid()).name() == "unshare")
        """The process that is number 1 in here."""
        self._enter = ("nsenter", "--target", str(self.first), *self.NAMESPACES)

    def begin(self, *arguments: str) -> list[str]:
        """Return the command that begins the system, with the arguments of `BEGIN`. It prints "begun", and the system
        ends when its standard input does.
        """
        return ["unshare", *self.NAMESPACES, "--fork", "--kill-child", "sh", "-ec", BEGIN, "sh", *arguments]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._outside.communicate()

    def command(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> list[str]:
        """Return the command that runs another one in here, as root."""
        variables = (f"{name}={value}" for name, value in {**ENVIRONMENT, **(environment or {})}.items())
        return [*self._enter, "env", "-i", *variables, *command]

    def run(self, *command: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command in here and return its output."""
        return subprocess.run(
            self.command(command, **options), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )

    def output(self, *command: str, **options: Any) -> str:
        """Run a command in here that succeeds, and return its output."""
        done = self.run(*command, **options)
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-8000:]
        return done.stdout

    def copy(self, path: Path, name: str) -> None:
        """Copy a file or folder to a path in here."""
        packed = subprocess.run(["tar", "-C", path.parent, "-c", path.name], capture_output=True, check=True).stdout
        self.output("mkdir", "-p", name)
        subprocess.run(self.command(["tar", "-C", name, "-x"]), input=packed, check=True)

    def read(self, name: str) -> bytes:
        """Return the contents of a file in here."""
        return subprocess.run(self.command(["cat", name]), stdout=subprocess.PIPE, check=True).stdout
