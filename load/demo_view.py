"""The demonstration on a terminal: a live picture (rich), or plain lines where the output is no terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from load.recording import NOTHING, Recording, Sample

BLOCKS = " ▁▂▃▄▅▆▇█"
CHART_ROWS = 12
LABEL_WIDTH = 14
CHART_MARGIN = LABEL_WIDTH + 4  # and the border
STATE_WIDTH = 30
COUNT_WIDTH = 12
HEADROOM = 1.15
"""The top of the chart as a multiple of the stop mark, so that an overshoot is visible."""
LINE_SECONDS = 1.0


class View(Protocol):
    """A display of a recording as it grows."""

    def update(self, recording: Recording) -> None: ...


@contextmanager
def opened_view(console: Console, heading: str, seconds: float, plain: bool) -> Iterator[View]:
    """Yield a live picture on a terminal, plain lines otherwise or if `plain`. `seconds` is the expected length."""
    if plain or not console.is_terminal:
        console.print(heading, highlight=False, markup=False, soft_wrap=True)
        yield Lines(console)
        return
    with Picture(console, heading, seconds) as picture:
        yield picture


class Lines:
    """One line a second, and one for each stop and each resume."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_line = 0.0
        self._shown = 0
        self._before = NOTHING
        self._stopped_at = 0.0

    def update(self, recording: Recording) -> None:
        for sample in recording.samples[self._shown :]:
            if sample.epoch != self._before.epoch or sample.saturated != self._before.saturated:
                self._print_change(sample)
            self._before = sample
            if sample.at >= self._next_line:
                self._next_line = sample.at + LINE_SECONDS
                self._print_state(sample, *recording.rates(sample.at))
        self._shown = len(recording.samples)

    def _print_change(self, now: Sample) -> None:
        if self._before.saturated:
            held = now.at - self._stopped_at
            self._print(f"{now.at:6.2f} s  RESUME  at a depth of {now.depth:,}, after {held:.2f} s")
        if now.saturated:
            self._stopped_at = now.at
            self._print(f"{now.at:6.2f} s  STOP    at a depth of {now.depth:,}")

    def _print_state(self, now: Sample, published: float, received: float) -> None:
        rates = f"published {published:>7,.0f}/s  consumed {received:>7,.0f}/s"
        producer = f"producer held: {now.held}" if now.held else "producer runs"
        self._print(f"{now.at:6.2f} s  depth {now.depth:>7,}  {rates}  {producer}")

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


class Picture:
    """Depth over time against the marks, what holds the producer, and rates; redrawn eight times a second."""

    def __init__(self, console: Console, heading: str, seconds: float) -> None:
        self._console = console
        self._heading = heading
        self._seconds = seconds
        self._live = Live(console=console, refresh_per_second=8, transient=False)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def update(self, recording: Recording) -> None:
        width = max(20, self._console.width - CHART_MARGIN)
        self._live.update(
            Panel(
                Group(chart(recording, width, self._seconds), Text(), state(recording)),
                title=self._heading,
                subtitle=f"{recording.latest.at:.0f} s",
            )
        )


def chart(recording: Recording, width: int, seconds: float) -> Text:
    """Draw `seconds` in `width` columns: a column is as high as the queue was deep, red where its producers were
    stopped; the marks are lines behind the columns.
    """
    top = max(recording.stop_count * HEADROOM, recording.deepest, 1)
    columns = buckets(recording, width, seconds)
    mark_rows = {row_of(recording.stop_count, top): "stop", row_of(recording.resume_count, top): "resume"}
    text = Text()
    for row in range(CHART_ROWS - 1, -1, -1):
        mark = mark_rows.get(row, "") if recording.stop_count else ""
        count = recording.stop_count if mark == "stop" else recording.resume_count
        text.append(f"{mark:>6} {count:>6,} " if mark else " " * LABEL_WIDTH, style="bold" if mark else "")
        for column in range(width):
            eighths = saturated = 0
            if column in columns:
                depth, saturated = columns[column]
                eighths = max(0, min(8, round(depth / top * CHART_ROWS * 8) - row * 8))
            if eighths:
                text.append(BLOCKS[eighths], style="red" if saturated else "cyan")
            else:
                text.append("╌" if mark else " ", style="yellow" if mark == "stop" else "green")
        text.append("\n" if row else "")
    return text


def row_of(count: int, top: float) -> int:
    """The row of the chart in which a depth ends."""
    return min(CHART_ROWS - 1, int(count / top * CHART_ROWS))


def buckets(recording: Recording, width: int, seconds: float) -> dict[int, tuple[int, bool]]:
    """Return, per column, the greatest depth seen and whether producers were stopped; a column without a sample repeats
    the one before. Time beyond `seconds` narrows the columns.
    """
    wide = max(seconds, recording.latest.at) / width
    columns: dict[int, tuple[int, bool]] = {}
    before, until = NOTHING, 0
    for sample in recording.samples:
        column = min(width - 1, int(sample.at / wide))
        for missed in range(until, column):
            columns[missed] = before.depth, before.saturated
        depth, saturated = columns.get(column, (0, False))
        columns[column] = max(depth, sample.depth), saturated or sample.saturated
        before, until = sample, column + 1
    return columns


def state(recording: Recording) -> Table:
    """A table of queue, producer and consumer: state, rate and total of each."""
    now = recording.latest
    published, received = recording.rates()
    stopped = sum(span.ended - span.began for span in recording.saturated_spans())
    table = Table.grid(padding=(0, 3))
    table.add_column()
    table.add_column(min_width=STATE_WIDTH)
    table.add_column(min_width=COUNT_WIDTH, justify="right")
    table.add_column(min_width=COUNT_WIDTH, justify="right")
    queue = Text("stopped its producers", "bold red") if now.saturated else Text("open", "bold green")
    producer = Text(f"held: {now.held}", "bold red") if now.held else Text("runs", "bold green")
    table.add_row("queue", queue, f"{now.depth:,} deep", f"{recording.stops} stops, {stopped:.1f} s")
    table.add_row("producer", producer, f"{published:,.0f}/s", f"{now.published:,} published")
    table.add_row("consumer", Text("runs", "bold green"), f"{received:,.0f}/s", f"{now.received:,} received")
    return table
