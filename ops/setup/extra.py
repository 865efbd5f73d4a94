"""Prints the requirements of extras, one a line: installing only those does not compile penstock again."""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
for extra in sys.argv[1:]:
    print(*project["optional-dependencies"][extra], sep="\n")
