"""Builds the compiled modules: every `*_cy.py` with the `.pxd` beside it, and every `.pyx`."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from Cython.Build import cythonize
from Cython.Build.Dependencies import create_dependency_tree
from setuptools import Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext
from setuptools.command.egg_info import egg_info
from setuptools.command.install_lib import install_lib

PACKAGES = ["penstock", "router", "shard", "acceptor"]
FOR_APPLICATIONS = ["penstock", "pyspark_penstock"]
PROGRAMS = "penstock_programs"
"""The folder of the other packages in an installation, which penstock.programs puts on the import path."""
JOBS = len(os.sched_getaffinity(0))
SECONDS = 8
"""Processor time to compile one module, about."""
FLAGS = ["-O3", "-w"]
"""Without warnings: the C is generated, and warns of nothing that its source could help."""
DIRECTIVES = {"language_level": 3, "boundscheck": False, "wraparound": False, "cdivision": True}


class Compile(build_ext):
    """Says how much it compiles. An editable installation uses what `build_ext --inplace` has compiled, and the other
    way round.
    """

    def finalize_options(self) -> None:
        """Build in the usual folder for an editable installation too, whose own is a temporary one."""
        super().finalize_options()
        if self.editable_mode:
            usual = build(self.distribution)
            usual.ensure_finalized()
            self.build_lib, self.build_temp = usual.build_lib, usual.build_temp

    def run(self) -> None:
        """Translate modules to C here and not before: the C files are no sources of a distribution."""
        if count := sum(self._is_late(module) for module in self.extensions):
            minutes = max(1, round(count * SECONDS / JOBS / 60))
            modules = f"{count} of {len(self.extensions)} modules"
            print(f"penstock: compiling {modules}, about {minutes} min on {JOBS} idle cores", flush=True)
        translated = cythonize(self.extensions, nthreads=JOBS, quiet=True, compiler_directives=DIRECTIVES)
        in_c = {module.name: module for module in translated}
        for module in self.extensions:
            module.sources, module.depends = in_c[module.name].sources, in_c[module.name].depends
        super().run()

    def _is_late(self, module: Extension) -> bool:
        built = Path(self.build_lib, self.get_ext_filename(module.name))
        newest, _ = create_dependency_tree(quiet=True).newest_dependency(module.sources[0])
        return not built.exists() or built.stat().st_mtime < newest


class Metadata(egg_info):
    """Lists the packages that applications can import."""

    def run(self) -> None:
        super().run()
        Path(self.egg_info, "top_level.txt").write_text("".join(f"{name}\n" for name in FOR_APPLICATIONS))


class Install(install_lib):
    """Installs the packages of penstock's programs in a folder of their own, and all libraries without debugging
    information. What lies in the checkout keeps that, for debuggers.
    """

    def install(self) -> list[str]:
        """Copy what was built, and return the copies."""
        files: list[str] = []
        for package in Path(self.build_dir).iterdir():
            folder = Path(self.install_dir, "" if package.name in FOR_APPLICATIONS else PROGRAMS)
            files += self.copy_tree(str(package), str(folder / package.name))
        libraries = [file for file in files if file.endswith(".so")]
        if libraries and shutil.which("strip"):
            subprocess.run(["strip", "--strip-debug", *libraries], check=True)
        return files


def extensions() -> list[Extension]:
    """The modules that are written to be compiled."""
    patterns = ("*_cy.py", "*.pyx")
    sources = sorted(path for package in PACKAGES for pattern in patterns for path in Path(package).rglob(pattern))
    return [
        Extension(".".join(p.with_suffix("").parts), [str(p)], extra_compile_args=FLAGS, include_dirs=["."])
        for p in sources
    ]


def remove_others(modules: Iterable[Extension]) -> None:
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
        ext_modules=modules,
        cmdclass={"build_ext": Compile, "egg_info": Metadata, "install_lib": Install},
        options={"build_ext": {"parallel": JOBS}},
    )
