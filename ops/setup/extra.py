"""Print the requirements of an extra, one a line: installed by themselves, they do not compile penstock again."""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
print(*project["optional-dependencies"][sys.argv[1]], sep="\n")
