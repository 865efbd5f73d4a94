from __future__ import annotations

from pathlib import Path

import pytest

from load.demo_plot import draw
from load.recording import Recording
from tests.load.test_recording import SEEN

pytest.importorskip("matplotlib")
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("seen", [SEEN, Recording()], ids=["some", "nothing"])
def test_draws_a_png(seen: Recording, tmp_path: Path) -> None:
    path = tmp_path / "plot.png"
    draw(seen, path, "heading")
    assert path.read_bytes().startswith(PNG)
