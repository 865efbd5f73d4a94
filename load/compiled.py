"""The programs in C that loads use, compiled when they are missing or older than their sources."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

DIRECTORY = Path(__file__).parent
BUILD = DIRECTORY.parent / "build"


def compiled(name: str, *headers: str) -> Path:
    """Return the program of a source file of this folder. OSError with the reason if it does not compile."""
    source, program = DIRECTORY / f"{name}.c", BUILD / name
    changed = max((DIRECTORY / each).stat().st_mtime for each in (source.name, *headers))
    if not program.exists() or program.stat().st_mtime < changed:
        BUILD.mkdir(exist_ok=True)
        fresh = program.with_suffix(f".{os.getpid()}")
        done = subprocess.run(["cc", "-O2", "-o", fresh, source, "-ldl"], capture_output=True, text=True, check=False)
        if done.returncode:
            lines = done.stderr.splitlines()
            raise OSError(f"{source.name} does not compile: {next((x for x in lines if 'error' in x), lines[-1])}")
        fresh.replace(program)
    return program
