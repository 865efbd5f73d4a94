"""Builds the compiled modules: every `*_cy.py` with the `.pxd` beside it, and every `.pyx`."""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

PACKAGES = ["penstock", "router", "shard", "acceptor"]
JOBS = len(os.sched_getaffinity(0))


def extensions() -> list[Extension]:
    patterns = ("*_cy.py", "*.pyx")
    sources = sorted(path for package in PACKAGES for pattern in patterns for path in Path(package).rglob(pattern))
    return [
        Extension(".".join(p.with_suffix("").parts), [str(p)], extra_compile_args=["-O3"], include_dirs=["."])
        for p in sources
    ]


if __name__ == "__main__":  # the processes that cythonize starts import this file again
    setup(
        ext_modules=cythonize(
            extensions(),
            nthreads=JOBS,
            compiler_directives={"language_level": 3, "boundscheck": False, "wraparound": False, "cdivision": True},
        ),
        options={"build_ext": {"parallel": JOBS}},
    )
