"""Builds the compiled modules: every `*_cy.py` with the `.pxd` beside it, and every `.pyx`."""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

PACKAGES = ["penstock", "router", "shard", "acceptor"]


def extensions() -> list[Extension]:
    sources = sorted(p for package in PACKAGES for pattern in ("*_cy.py", "*.pyx") for p in Path(package).rglob(pattern))
    return [
        Extension(".".join(p.with_suffix("").parts), [str(p)], extra_compile_args=["-O3"], include_dirs=["."])
        for p in sources
    ]


setup(
    ext_modules=cythonize(
        extensions(),
        compiler_directives={"language_level": 3, "boundscheck": False, "wraparound": False, "cdivision": True},
    )
)
