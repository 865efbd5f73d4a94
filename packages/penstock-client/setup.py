"""The version of the client, which is penstock's: read, not imported, as penstock need not be installed."""

import re
from pathlib import Path

from setuptools import setup

source = Path(__file__).parents[2] / "penstock" / "__init__.py"
found = re.search(r'^__version__ = "(.+)"$', source.read_text(), re.MULTILINE)
assert found is not None, f"{source} has no version"
setup(version=found[1])
