"""Flat-out producers of five libraries; those of each library run in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests import certificates
from tests.clients import amqplib
from tests.clients.hold import Job
from tests.raw import Address
from tests.twins import ROOT
from tests.waiting import PATIENCE


class Held:
    """A process of producers; `more` has further fields of its job."""

    def __init__(
        self, library: str, address: Address, queue: str, directory: Path, count: int, size: int, **more: Any
    ) -> None:
        self.library = library
        self.queue = queue
        self.job = Job(address.url, queue, count, size, **more)
        self.output = directory / f"{library}-{queue}-{self.job.first}.txt"
        job = json.dumps(asdict(self.job))
        environment = {**os.environ}
        if library == "amqplib":
            environment |= amqplib.environment()
            command = ["node", str(amqplib.PROGRAMS / "hold.js"), job]
        else:
            command = [sys.executable, "-m", "tests.clients.hold", library, job]
        trusted = dict.fromkeys(("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"), str(certificates.authority_file()))
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment | trusted, stdout=output, stderr=output)

    @property
    def said(self) -> str:
        """The output of the process so far."""
        return self.output.read_text()

    def check_held(self) -> None:
        """Check that no producer is done."""
        assert self.process.poll() is None, f"{self.library} has ended: {self.said}"
        assert "alive" not in self.said, f"{self.library} was not held"

    def check_alive(self, patience: float = PATIENCE) -> None:
        """Check that all producers have published everything and then used their connections."""
        assert self.process.wait(patience) == 0, f"{self.library}: {self.said}"
        assert self.said.count("alive") == self.job.connections, f"{self.library}: {self.said}"
