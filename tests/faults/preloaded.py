"""Libraries in C for preloading into the broker."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path


def compiled(source: Path, place: Path) -> Path:
    """Compile a library into `place`, with the compiler of the broker's own modules; return its path."""
    library = place / source.with_suffix(".so").name
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if shutil.which(compiler[0]) is None:
        compiler = ["cc"]
    command = [*compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    return library
