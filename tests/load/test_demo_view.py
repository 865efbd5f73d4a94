from __future__ import annotations

from io import StringIO

from rich.console import Console

from load.demo_view import CHART_ROWS, chart, opened_view
from load.recording import Recording
from tests.load.test_recording import SEEN


def watched(terminal: bool, plain: bool = False) -> str:
    """Return everything written while the recording grows sample by sample."""
    output = StringIO()
    console = Console(file=output, force_terminal=terminal, width=100, height=40, color_system=None)
    growing = Recording(SEEN.stop_count, SEEN.resume_count)
    with opened_view(console, "heading", 2.0, plain) as view:
        for sample in SEEN.samples:
            growing.samples.append(sample)
            view.update(growing)
    return output.getvalue()


def test_lines_where_there_is_no_terminal() -> None:
    """Each stop and resume has its line, and there is no control sequence."""
    text = watched(terminal=False)
    assert "\x1b" not in text
    assert text.startswith("heading\n")
    assert "0.30 s  STOP    at a depth of 81" in text
    assert "0.90 s  RESUME  at a depth of 60, after 0.60 s" in text
    assert text.count("STOP") == 3 and text.count("RESUME") == 2
    assert "producer held: Channel.Flow" in text
    assert watched(terminal=True, plain=True) == text


def test_the_picture_tells_state_and_counts() -> None:
    text = watched(terminal=True)
    for part in (
        "heading",
        "stop",
        "resume",
        "stopped its producers",
        "95 deep",
        "3 stops",
        "150 published",
        "66 received",
    ):
        assert part in text


def test_the_chart_keeps_its_size() -> None:
    """The chart fills the same rows and columns whatever was recorded."""
    for seen in (SEEN, Recording(), Recording(10, 5, SEEN.samples[:1])):
        lines = chart(seen, width=40, seconds=2.0).plain.split("\n")
        assert len(lines) == CHART_ROWS
        assert len({len(line) for line in lines}) == 1
