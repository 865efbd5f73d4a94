"""Plots of the report: SVG as text, in colours that are visible on light and dark backgrounds."""

from __future__ import annotations

import io
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

from pipeline.report.answers import Curve, Row

GREY = "#8a8a8a"
COLOURS = ("#4c8bf5", "#e8833a", "#3aa76d", "#c85bb0", "#b8a028", "#2ab0b8", "#d9534f", "#8f7ae5")
STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": GREY,
    "axes.labelcolor": GREY,
    "axes.edgecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.color": GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.frameon": False,
}
BARS_MOST = 15
FAULTS = ("no consumers", "consumers stuck", "consumers slow", "producers", "limit", "unknown")


def shard_load(rows: list[Row], since: int, until: int) -> str:
    """Plot messages a second of each shard over the time of the report (µs since 1970)."""
    lines: dict[str, list[tuple[int, float]]] = defaultdict(list)
    nodes = {row["node"] for row in rows}
    for row in rows:
        name = f"shard {row['shard']}" if len(nodes) == 1 else f"{row['node']} {row['shard']}"
        rate = (row["msgs_in"] + row["msgs_out"]) * 1000 / row["covered_ms"] if row["covered_ms"] else 0.0
        lines[name].append((row["slot"], rate))
    with _axes("shard_load", 3.2) as (figure, axes):
        for number, (name, points) in enumerate(lines.items()):
            times = [_time(at) for at, _ in points]
            axes.plot(
                *(times, [rate for _, rate in points]),
                color=COLOURS[number % len(COLOURS)],
                linestyle=("-", "--", ":")[number // len(COLOURS) % 3],
                marker="." if len(points) < 3 else None,
                label=name,
                linewidth=1.4,
            )
        axes.set_ylabel("messages a second")
        axes.set_ylim(bottom=0)
        axes.set_xlim(_time(since), _time(until))
        _over_time(axes)
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), ncols=1 + len(lines) // 12)
        return _svg(figure)


def held(rows: list[Row]) -> str:
    """Plot the minutes that users were held, by fault, from rows of the culprits' ledger."""
    users: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for row in rows:
        users[f"{row['user']} ({row['product']})"][row["fault"]] += row["stopped_ms"] / 60_000
    shown = sorted(users, key=lambda user: -sum(users[user].values()))[:BARS_MOST]
    with _axes("held", 1.0 + 0.32 * len(shown)) as (figure, axes):
        left = [0.0] * len(shown)
        for number, fault in enumerate(dict.fromkeys((*FAULTS, *(row["fault"] for row in rows)))):
            widths = [users[user][fault] for user in shown]
            if any(widths):
                axes.barh(shown, widths, left=left, color=COLOURS[number % len(COLOURS)], label=fault, height=0.6)
                left = [start + width for start, width in zip(left, widths, strict=True)]
        axes.invert_yaxis()
        axes.set_xlabel("minutes held, summed over channels")
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return _svg(figure)


def depth(curve: Curve) -> str:
    """Plot the depth of a queue over time, against its marks."""
    with _axes(f"{curve.node}/{curve.vhost}/{curve.queue}", 2.4) as (figure, axes):
        times = [_time(at) for at, _ in curve.points]
        depths = [deep for _, deep in curve.points]
        axes.fill_between(times, depths, step="post", color=COLOURS[0], alpha=0.25)
        axes.plot(times, depths, drawstyle="steps-post", color=COLOURS[0], linewidth=1.2, label="depth")
        if curve.stop_count:
            axes.axhline(curve.stop_count, color=COLOURS[6], linestyle="--", label=f"stop {curve.stop_count:,}")
            axes.axhline(curve.resume_count, color=COLOURS[2], linestyle="--", label=f"resume {curve.resume_count:,}")
        axes.set_ylabel("messages")
        axes.set_ylim(bottom=0)
        _over_time(axes)
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return _svg(figure)


@contextmanager
def _axes(name: str, height: float) -> Iterator[tuple[Any, Any]]:
    """Yield a figure of that height in inches, and its axes. `name` makes its ids unique on the page."""
    style: Any = {**STYLE, "svg.hashsalt": name}
    with mpl.rc_context(style):
        figure, axes = plt.subplots(figsize=(9.5, height), layout="constrained")
        yield figure, axes


def _time(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1e6, UTC)


def _over_time(axes: Any) -> None:
    locator: Any = AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def _svg(figure: Any) -> str:
    """Return the figure as an element of a page, without the XML prologue, size and metadata of a file."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    drawn = text.getvalue()
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn[drawn.index("<svg") :], flags=re.DOTALL)
    return re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg class="plot" viewBox="\1" role="img">', drawn, count=1)
