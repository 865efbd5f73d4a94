"""Builds the compiled modules: every `*_cy.py` with the `.pxd` beside it, every `.pyx`, and `PLAIN`."""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

PACKAGES = ["penstock", "router", "shard", "acceptor"]
JOBS = len(os.sched_getaffinity(0))

PLAIN = (
    "acceptor.channel",
    "acceptor.connection",
    "acceptor.core",
    "acceptor.delivery",
    "acceptor.inlet",
    "acceptor.parked",
    "acceptor.publishing",
    "acceptor.routes",
    "acceptor.sent",
    "acceptor.shard_link",
    "penstock.bus",
    "shard.commits",
    "shard.core",
    "shard.dispatch",
    "shard.flow",
    "shard.gate",
    "shard.link",
    "shard.peers",
    "shard.queues",
    "shard.room",
    "shard.saturation",
    "shard.stalls",
)
"""Modules without C types that each turn goes through. Compiled they do the same, without the interpreter."""


def extensions() -> list[Extension]:
    """The modules that are written to be compiled."""
    patterns = ("*_cy.py", "*.pyx")
    sources = sorted(path for package in PACKAGES for pattern in patterns for path in Path(package).rglob(pattern))
    return [
        Extension(".".join(p.with_suffix("").parts), [str(p)], extra_compile_args=["-O3"], include_dirs=["."])
        for p in sources
    ]


def plain_extensions() -> list[Extension]:
    """Those that need not be."""
    return [Extension(name, [f"{name.replace('.', '/')}.py"], extra_compile_args=["-O2"]) for name in PLAIN]


if __name__ == "__main__":  # the processes that cythonize starts import this file again
    setup(
        ext_modules=[
            *cythonize(
                extensions(),
                nthreads=JOBS,
                compiler_directives={"language_level": 3, "boundscheck": False, "wraparound": False, "cdivision": True},
            ),
            *cythonize(
                plain_extensions(),
                nthreads=JOBS,
                compiler_directives={"language_level": 3, "annotation_typing": False},
            ),
        ],
        options={"build_ext": {"parallel": JOBS}},
    )
