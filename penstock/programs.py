"""Where the packages of penstock's programs are: `acceptor`, `console`, `load`, `ops`, `pipeline`, `router`, `shard`.

An application may have packages of these names. An installation therefore has penstock's in a folder of their own,
which only penstock's processes have on their import path, before all else. `penstock` and `pyspark_penstock`, which
applications import, are installed as usual. In a checkout the folder is the checkout.

    python -m penstock.programs MODULE ARGUMENT…     runs one of them as a program, such as `load.demo`
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

INSTALLED = "penstock_programs"
"""The folder's name in an installation, beside the package `penstock`. setup.py has it too."""


def folder() -> Path:
    """Return the folder that has the packages."""
    beside = Path(__file__).resolve().parents[1]
    installed = beside / INSTALLED
    return installed if installed.is_dir() else beside


def environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which Python looks into the folder first, and not into the working directory."""
    first = str(folder())
    others = [path for path in inherited.get("PYTHONPATH", "").split(os.pathsep) if path != first]
    return {**inherited, "PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join([first, *filter(None, others)])}


def put_folder_first() -> None:
    """Put the folder first on the path of this process and of those that it starts, Spark's workers too."""
    sys.path.insert(0, str(folder()))
    for name, value in environment(os.environ).items():
        if os.environ.get(name) != value:  # setproctitle finds the arguments by the environment as it was
            os.environ[name] = value


def main() -> None:
    """The command `penstock`."""
    put_folder_first()
    import_module("ops.entry").main()


if __name__ == "__main__":
    if sys.path[0] == str(Path(__file__).parent):  # run as a file, by spark-submit: its neighbours are not top-level
        del sys.path[0]
    if len(sys.argv) < 2:
        sys.exit("usage: python -m penstock.programs MODULE ARGUMENT…")
    put_folder_first()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
