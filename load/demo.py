"""`make demo`: a broker, a flat-out producer and a slow consumer, and the flow control that balances them.

The queue fills to its stop mark, the broker stops the producer, the consumer drains the queue to the resume mark, and
the broker lets the producer go on. The demonstration shows this live and ends by itself with a summary and a plot.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from load.demo_clients import Client, Load, ProducerKind, consume, produce
from load.demo_plot import draw
from load.demo_view import View, opened_view
from load.node import LocalNode, NotStarted
from load.probe import prepare
from load.recording import Recording, Sample

QUEUE = "demo"
POLL_SECONDS = 0.02
"""Interval of reading depth and flow state; they are in shared memory, so reading costs the broker nothing."""
DRAW_SAMPLES = 6
DRAIN_SECONDS = 30.0
"""Longest time for the consumer to drain the queue after the producer has ended."""
BATCH = 50
PREFETCH = 500


class Failed(RuntimeError):
    """A client of the demonstration failed; the text says how."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a demonstration; `wrong` counts gaps in the order of messages."""

    recording: Recording
    wrong: int

    @property
    def complete(self) -> bool:
        """Whether every published message was received, once and in order."""
        return self.wrong == 0 and self.recording.latest.received == self.recording.latest.published


class Show:
    """Both clients at work on one node, and the recording of their progress."""

    def __init__(self, node: LocalNode, load: Load, view: View) -> None:
        self._node, self._view = node, view
        self.recording = Recording()
        self._sampled = 0
        self._consumer = Client(consume, load)
        self._consumer.wait_started()
        self._producer = Client(produce, load)
        self._producer.wait_started()
        self._began = time.monotonic()

    def run(self, seconds: float) -> Outcome:
        """Watch for `seconds`, then end the producer and let the consumer drain the queue. Raises Failed if a client
        fails.
        """
        try:
            self._watch(lambda: self._elapsed() >= seconds)
            self._producer.ending.set()
            self._consumer.ending.set()  # lifts the consumer's rate limit
            deadline = self._elapsed() + DRAIN_SECONDS
            self._watch(lambda: (self._producer.done and self._all_received()) or self._elapsed() > deadline)
            return Outcome(self.recording, self._consumer.progress.wrong)
        finally:
            self._producer.stop()
            self._consumer.stop()

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _all_received(self) -> bool:
        return self._consumer.progress.messages >= self._producer.progress.messages

    def _watch(self, enough: Callable[[], bool]) -> None:
        while not enough():
            self._sample()
            time.sleep(POLL_SECONDS)
        self._sample()
        self._view.update(self.recording)

    def _sample(self) -> None:
        producer, consumer = self._producer.progress, self._consumer.progress
        for name, progress in (("producer", producer), ("consumer", consumer)):
            if progress.error:
                raise Failed(f"the {name} failed: {progress.error}")
        flow = self._node.flow_state(QUEUE)
        if flow is None:
            return
        self.recording.stop_count, self.recording.resume_count = flow.stop_count, flow.resume_count
        self.recording.samples.append(
            Sample(
                at=self._elapsed(),
                depth=flow.depth,
                saturated=flow.saturated,
                published=producer.messages,
                received=consumer.messages,
                held=producer.held,
                epoch=flow.epoch,
            )
        )
        self._sampled += 1
        if self._sampled % DRAW_SAMPLES == 0:
            self._view.update(self.recording)


def summary(outcome: Outcome) -> str:
    """Describe the outcome in a few lines."""
    recording = outcome.recording
    latest, lengths = recording.latest, [span.ended - span.began for span in recording.saturated_spans()]
    over = recording.deepest - recording.stop_count
    marks = f"the stop mark of {recording.stop_count:,} (resume mark {recording.resume_count:,})"
    longest = f"{sum(lengths):.1f} s in all, at most {max(lengths, default=0.0):.1f} s"
    if outcome.complete:
        verdict = "complete   every message arrived, in order and once"
    else:
        missing = latest.published - latest.received
        verdict = f"INCOMPLETE {missing:,} not received, {outcome.wrong:,} times out of order"
    lines = [
        f"published  {latest.published:>8,}  received {latest.received:,}",
        f"deepest    {recording.deepest:>8,}  {abs(over):,} {'above' if over > 0 else 'below'} {marks}",
        f"stopped    {f'{recording.stops} times':>8}  {longest}",
        f"producer   {'held':>8}  for {recording.held_seconds():.1f} s of {latest.at:.1f} s",
        verdict,
    ]
    return "\n".join(lines)


def demo(
    seconds: Annotated[float, typer.Option(min=1, help="how long the producer publishes")] = 20.0,
    producer: Annotated[ProducerKind, typer.Option(help="how it reacts to a stop")] = ProducerKind.CONFIRMS,
    stop: Annotated[int, typer.Option(min=1, help="stop mark of the queue, in messages")] = 8000,
    resume: Annotated[int, typer.Option(min=0, help="resume mark, in messages")] = 6000,
    consumer_rate: Annotated[float, typer.Option(min=1, help="messages a second that the consumer handles")] = 2000.0,
    size: Annotated[int, typer.Option(min=16, help="bytes of a body")] = 512,
    png: Annotated[Path, typer.Option(help="file of the plot")] = Path("demo.png"),
    plain: Annotated[bool, typer.Option(help="lines instead of a live picture")] = False,
) -> None:
    """Start a broker and show how it stops and resumes a producer."""
    console = Console()
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-demo-") as directory, LocalNode(Path(directory)) as node:
            arguments = {"qpid.flow_stop_count": stop, "qpid.flow_resume_count": resume}
            prepare(node.target, QUEUE, arguments)
            load = Load(node.target, QUEUE, producer, size, BATCH, consumer_rate, PREFETCH)
            heading = f"penstock on {node.target}: pika producer ({producer}), consumer at {consumer_rate:g}/s"
            with opened_view(console, heading, seconds, plain) as view:
                outcome = Show(node, load, view).run(seconds)
    except (NotStarted, Failed) as error:
        console.print(f"demo: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
        raise typer.Exit(1) from None
    console.print(summary(outcome), highlight=False, markup=False, soft_wrap=True)
    try:
        draw(outcome.recording, png, heading)
        console.print(f"plot       {png}", highlight=False, markup=False, soft_wrap=True)
    except ModuleNotFoundError:
        console.print("no plot: matplotlib is missing (it comes with the extra `load`)", highlight=False, markup=False)
    if not outcome.complete:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(demo)
