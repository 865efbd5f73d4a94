"""Builds the compiled modules: every `*_cy.py` with the `.pxd` beside it, and every `.pyx`."""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

PACKAGES = ["penstock", "router", "shard", "acceptor"]
JOBS = len(os.sched_getaffinity(0))


def extensions() -> list[Extension]:
    """The modules that are written to be compiled."""
    patterns = ("*_cy.py", "*.pyx")
    sources = sorted(path for package in PACKAGES for pattern in patterns for path in Path(package).rglob(pattern))
    return [
        Extension(".".join(p.with_suffix("").parts), [str(p)], extra_compile_args=["-O3"], include_dirs=["."])
        for p in sources
    ]


def remove_others(modules: list[Extension]) -> None:
    """What was compiled of other modules, once: Python would load it in place of their source."""
    names = {module.name for module in modules}
    for package in PACKAGES:
        for path in Path(package).rglob("*.so"):
            if ".".join((*path.parent.parts, path.name.split(".")[0])) not in names:
                path.unlink()


if __name__ == "__main__":  # the processes that cythonize starts import this file again
    modules = extensions()
    remove_others(modules)
    setup(
        ext_modules=cythonize(
            modules,
            nthreads=JOBS,
            compiler_directives={"language_level": 3, "boundscheck": False, "wraparound": False, "cdivision": True},
        ),
        options={"build_ext": {"parallel": JOBS}},
    )
