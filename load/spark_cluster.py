"""Spark's standalone cluster on loopback: a master and workers, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyspark

from load.processes import kill, living

SPARK_CLASS = Path(pyspark.__path__[0]) / "bin" / "spark-class"
START_SECONDS = 240.0
POLL_SECONDS = 0.1


class Daemon:
    """A master or worker process, and its log, which says where it listens."""

    def __init__(self, directory: Path, name: str, *command: str, python_path: str) -> None:
        self.log = directory / f"{name}.log"
        environment = os.environ | {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": python_path,
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [str(SPARK_CLASS), f"org.apache.spark.deploy.{command[0]}", *command[1:]],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=directory,
            )  # fmt: skip

    def line(self, text: str) -> str:
        """Wait for a line of the log that contains `text` and return it. RuntimeError if the process ends or takes too
        long.
        """
        deadline = time.monotonic() + START_SECONDS
        while True:
            over = self.process.poll() is not None or time.monotonic() > deadline
            said = self.log.read_text(errors="replace")
            for line in said.splitlines():
                if text in line:
                    return line
            if over:
                raise RuntimeError(f"no {text!r} in {self.log}:\n{said[-5000:]}")
            time.sleep(POLL_SECONDS)

    def family(self) -> list[psutil.Process]:
        """Return the process and its descendants, such as a worker's executors; an empty list once it is gone."""
        return living(self.process.pid)

    def kill(self) -> None:
        """Send SIGKILL to the process and its descendants."""
        kill(self.process)


@contextmanager
def cluster(directory: Path, workers: int, python_path: str = "") -> Iterator[tuple[str, list[Daemon]]]:
    """Yield the address of the master, and its workers with a core and a gigabyte each. `python_path` is where
    executors find packages.
    """
    started: list[Daemon] = []

    def start(name: str, *command: str) -> Daemon:
        started.append(Daemon(directory, name, *command, python_path=python_path))
        return started[-1]

    try:
        own = ("--host", "127.0.0.1", "--webui-port", "0")
        url = start("master", "master.Master", *own, "--port", "0").line("Starting Spark master at ").split()[-1]
        for number in range(workers):
            work = ("--work-dir", str(directory / f"work-{number}"), "--cores", "1", "--memory", "1g")
            start(f"worker-{number}", "worker.Worker", *own, *work, url)
        for worker in started[1:]:
            worker.line("Successfully registered with master")
        yield url, started[1:]
    finally:
        for daemon in reversed(started):
            daemon.kill()
