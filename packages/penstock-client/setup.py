"""The client's files and version are penstock's. In a checkout they are above this folder; a source distribution has
them within.
"""

import re
from pathlib import Path

from setuptools import setup
from setuptools.command.sdist import sdist

HERE = Path(__file__).parent
ROOT = next(root for root in (HERE, HERE.parents[1]) if (root / "penstock" / "client").is_dir())
VERSION = ROOT / "penstock" / "__init__.py"


class SourceDistribution(sdist):
    """Leaves out the files by the names that they have in a checkout, and adds them by their own."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, [name for name in files if not name.startswith("..")])
        client = ROOT / "penstock" / "client"
        for source in (VERSION, client / "py.typed", *client.glob("*.py")):
            target = Path(base_dir, source.relative_to(ROOT))
            target.parent.mkdir(parents=True, exist_ok=True)
            self.copy_file(str(source), str(target))


found = re.search(r'^__version__ = "(.+)"$', VERSION.read_text(), re.MULTILINE)
assert found is not None, f"{VERSION} has no version"
setup(
    version=found[1],
    package_dir={"penstock.client": "penstock/client" if ROOT == HERE else "../../penstock/client"},
    cmdclass={"sdist": SourceDistribution},
)
