"""A Spark daemon that does not start. One that starts and dies: `tests/pipeline/test_cluster.py`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from load.spark_cluster import Daemon

pytestmark = [pytest.mark.spark, pytest.mark.skipif(shutil.which("java") is None, reason="Java is missing")]


def test_what_does_not_start_is_told_with_its_last_words(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, "none", "nothing.Such", python_path="")
    with pytest.raises(RuntimeError, match=r"no 'Registered' in .*none\.log:\n(.|\n)*nothing\.Such"):
        daemon.line("Registered")
    daemon.kill()
    assert daemon.family() == []
