"""Our part of Locust's HTML report: the verdict, how publishers were held, depth over time.

Pure: figures in, HTML out. It contains no script and fetches nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from load.counters import Stop
from load.figures import TITLES, Held, cells
from load.probe import Depth
from load.verdict import Finding

WIDTH, HEIGHT = 1000, 240
LEFT, BOTTOM = 70, 24
POINTS_MAX = 1000
STRIPES_MAX = 2000
COLOURS = ("#1565c0", "#2e7d32", "#6a1b9a", "#00838f", "#ad6800", "#5d4037")
CHART = (
    "Lines are messages ready. The shade above a line is as many as consumers of the queue may have unacked: marks "
    "count both. Red: a publisher was stopped."
)
STYLE = """
.load { font: 14px/1.5 Roboto, Helvetica, Arial, sans-serif; max-width: 1200px; margin: 24px auto; padding: 0 24px;
        background: #fff; color: #222; border-radius: 4px }
.load h2 { font-weight: 400; font-size: 28px; margin: 16px 0 8px } .load h3 { font-weight: 500; margin: 20px 0 6px }
.load table { border-collapse: collapse }
.load td, .load th { text-align: left; padding: 4px 12px; border-bottom: 1px solid #ddd }
.load td.number, .load th.number { text-align: right; font-variant-numeric: tabular-nums }
.load .good { color: #2e7d32 } .load .bad { color: #c62828; font-weight: 700 }
.load .wide { overflow-x: auto } .load svg { width: 100%; min-width: 760px; height: auto }
.load svg text { font-size: 12px; fill: #555 }
"""


def section(
    findings: Sequence[Finding],
    held: Sequence[Held],
    sums: Mapping[str, float],
    depths: Sequence[Depth],
    stops: Sequence[Stop],
    marks: Mapping[str, int],
    unacked: Mapping[str, int],
) -> str:
    """Return a `<section>` with its style. `marks` are drawn as lines: messages by name. `unacked` has the most
    messages of each queue that may be unacked. Without findings there is no verdict: the run goes on.
    """
    parts = [f"<style>{STYLE}</style><section class='load'><h2>Messages and flow control</h2>"]
    if findings:
        parts += ["<h3>Verdict</h3>", grid(("", "Check", "Found"), map(finding_cells, findings), numbers_from=3)]
    parts += [
        "<h3>Publishers, and how they were held</h3>",
        grid(TITLES.values(), (map(escape, cells(row)) for row in held)),
    ]
    parts += ["<h3>Messages</h3>", grid(sums, [[f"{value:,.0f}" for value in sums.values()]], numbers_from=0)]
    if depths:
        parts += ["<h3>Messages in each queue</h3>", f"<p>{CHART}</p>", chart(depths, stops, marks, unacked)]
    return "".join([*parts, "</section>"])


def insert_section(page: str, section: str) -> str:
    """Insert the section at the start of the body of a page of Locust's."""
    before, body, after = page.rpartition("<body>")
    return f"{before}{body}{section}{after}" if body else section + page


def finding_cells(finding: Finding) -> list[str]:
    """The cells of a finding, as HTML."""
    mark = "<span class='good'>ok</span>" if finding.good else "<span class='bad'>FAIL</span>"
    return [mark, escape(finding.what), escape(finding.found)]


def grid(titles: Iterable[str], rows: Iterable[Iterable[str]], numbers_from: int = 1) -> str:
    """Return a table of cells that are already HTML; columns from `numbers_from` on hold numbers."""

    def line(tag: str, texts: Iterable[str]) -> str:
        kinds = (" class='number'" if at >= numbers_from else "" for at in itertools.count())
        return (
            "<tr>" + "".join(f"<{tag}{kind}>{text}</{tag}>" for kind, text in zip(kinds, texts, strict=False)) + "</tr>"
        )

    lines = [line("th", map(escape, titles)), *(line("td", row) for row in rows)]
    return f"<div class='wide'><table>{''.join(lines)}</table></div>"


def chart(depths: Sequence[Depth], stops: Sequence[Stop], marks: Mapping[str, int], unacked: Mapping[str, int]) -> str:
    """Draw depth over time as SVG with a legend: a line per queue, above it a shade for messages that may be unacked, a
    dashed line per mark, red while a publisher was stopped.
    """
    began, ended = depths[0].at, max(depths[-1].at, depths[0].at + 1)
    deepest = max(ready + unacked.get(queue, 0) for depth in depths for queue, ready in depth.ready.items())
    highest = max(1, deepest, *marks.values())

    def across(at: float) -> float:
        share = min(max((at - began) / (ended - began), 0.0), 1.0)
        return LEFT + share * (WIDTH - LEFT)

    def down(messages: float) -> float:
        return (HEIGHT - BOTTOM) * (1 - messages / highest * 0.9)

    floor = HEIGHT - BOTTOM
    parts = [f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' role='img'>"]
    parts += [
        f"<rect x='{across(first):.1f}' y='0' width='{max(across(last) - across(first), 0.5):.1f}' height='{floor}' "
        "fill='#c62828' fill-opacity='0.15'/>"
        for first, last in merged(stops)[:STRIPES_MAX]
    ]
    for name, messages in marks.items():
        y = f"{down(messages):.1f}"
        parts.append(f"<line x1='{LEFT}' x2='{WIDTH}' y1='{y}' y2='{y}' stroke='#888' stroke-dasharray='5 4'/>")
        parts.append(f"<text x='{LEFT + 4}' y='{y}' dy='-3'>{escape(name)} {messages:,}</text>")
    shown = depths[:: max(1, -(-len(depths) // POINTS_MAX))]
    queues = sorted(depths[0].ready)
    for queue, colour in zip(queues, itertools.cycle(COLOURS), strict=False):
        most = unacked.get(queue, 0)
        lower, upper = (
            [f"{across(depth.at):.1f},{down(depth.ready.get(queue, 0) + more):.1f}" for depth in shown]
            for more in (0, most)
        )
        if most:
            shade = " ".join((*upper, *reversed(lower)))
            parts.append(f"<path class='unacked' d='M{shade}Z' fill='{colour}' fill-opacity='0.18'/>")
        points = " ".join(lower)
        parts.append(f"<polyline points='{points}' fill='none' stroke='{colour}' stroke-width='1.5'/>")
    parts.append(f"<line x1='{LEFT}' x2='{WIDTH}' y1='{floor}' y2='{floor}' stroke='#888'/>")
    parts.append(f"<text x='{LEFT - 6}' y='{floor}' text-anchor='end'>0</text>")
    parts.append(f"<text x='{LEFT - 6}' y='{down(highest) + 8:.1f}' text-anchor='end'>{highest:,}</text>")
    parts.append(f"<text x='{WIDTH}' y='{HEIGHT - 6}' text-anchor='end'>{ended - began:.0f} s</text></svg>")
    legend = (
        f"<span style='color:{colour}'>━</span> {escape(queue)} &emsp;"
        for queue, colour in zip(queues, itertools.cycle(COLOURS), strict=False)
    )
    return f"<p>{''.join(legend)}</p><div class='wide'>{''.join(parts)}</div>"


def merged(stops: Iterable[Stop]) -> list[tuple[float, float]]:
    """Return the periods in which at least one publisher was asked to stop."""
    spans: list[tuple[float, float]] = []
    for stop in sorted(stops):
        if spans and stop.began <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], stop.ended))
        else:
            spans.append((stop.began, stop.ended))
    return spans
