"""Stop and go against pace: the same producer and consumer, first at a queue with marks, then at a paced one.

    python -m load.pacing --png docs/pace.png

Prints for each how much the depth varies and how long the consumer was idle, and plots the depths over time.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import fmean, pstdev
from typing import Annotated, NamedTuple

import typer

from load.demo import Show
from load.demo_clients import Load, ProducerKind
from load.node import LocalNode
from load.probe import prepare
from load.recording import Recording
from load.target import Target

STOP, RESUME = 1000, 100
PACE = (STOP + RESUME) // 2
RATE = 2000.0
BATCH, PREFETCH, SIZE = 50, 50, 256
WARM_UP_SECONDS = 2.0
DRAW_AT_MOST = 1000


class Run(NamedTuple):
    """One of the two runs: its name, its samples (seconds, depth), and the figures computed from them."""

    name: str
    depths: list[tuple[float, int]]
    mean: float
    deviation: float
    idle: float


class Watched(Show):
    """A show that ends without draining the queue."""

    def watch(self, seconds: float) -> Recording:
        """Record for `seconds` and return the recording."""
        try:
            self._watch(lambda: self._elapsed() >= seconds)
            return self.recording
        finally:
            self._producer.stop()
            self._consumer.stop()


class Silent:
    """A view that shows nothing."""

    def update(self, recording: Recording) -> None: ...


def summarize(name: str, recording: Recording, rate: float) -> Run:
    """Compute the figures of a recording after the warm-up. `idle` is a fraction of the time."""
    samples = [sample for sample in recording.samples if sample.at >= WARM_UP_SECONDS]
    depths = [(sample.at - WARM_UP_SECONDS, sample.depth) for sample in samples]
    values = [depth for _, depth in depths]
    taken = samples[-1].received - samples[0].received
    idle = 1 - taken / (rate * (samples[-1].at - samples[0].at))
    return Run(name, depths, fmean(values), pstdev(values), max(idle, 0.0))


def run(node: LocalNode, target: Target, name: str, arguments: dict[str, int], seconds: float) -> Run:
    """Run producer and consumer at a queue with these arguments."""
    queue = "demo"
    prepare(target, queue, arguments)
    show = Watched(node, Load(target, queue, ProducerKind.FLAT_OUT, SIZE, BATCH, RATE, PREFETCH), Silent())
    return summarize(name, show.watch(seconds + WARM_UP_SECONDS), RATE)


def draw(runs: list[Run], path: Path) -> None:
    """Write a PNG of the depths, one plot below the other."""
    import matplotlib as mpl  # late: a broker's machine need not have it

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(len(runs), 1, sharex=True, sharey=True, figsize=(8, 4), layout="constrained")
    for each, axis in zip(runs, axes, strict=True):
        shown = each.depths[:: max(len(each.depths) // DRAW_AT_MOST, 1)]
        axis.plot([at for at, _ in shown], [depth for _, depth in shown], linewidth=0.8)
        axis.set_title(describe(each), fontsize=9, loc="left")
        axis.set_ylabel("messages", fontsize=8)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    axes[-1].set_xlabel("seconds", fontsize=8)
    figure.savefig(path, dpi=90, format="png")
    plt.close(figure)


def describe(run: Run) -> str:
    """Describe a run in one line."""
    return (
        f"{run.name}: depth {run.mean:.0f} on average, standard deviation {run.deviation:.0f}; "
        f"consumer idle {100 * run.idle:.1f} % of the time"
    )


def main(
    seconds: Annotated[float, typer.Option(min=1, help="length of each of the two runs")] = 15.0,
    png: Annotated[Path, typer.Option(help="file of the plot")] = Path("pace.png"),
) -> None:
    """Compare stop and go with pace, on brokers started for it."""
    kinds = {
        f"stop at {STOP}, resume at {RESUME}": {"x-flow-stop-count": STOP, "x-flow-resume-count": RESUME},
        f"paced to {PACE}": {"x-pace-depth": PACE},
    }
    runs = []
    for name, arguments in kinds.items():
        with tempfile.TemporaryDirectory(prefix="penstock-pace-") as directory, LocalNode(Path(directory)) as node:
            runs.append(run(node, node.target, name, arguments, seconds))
            print(describe(runs[-1]), flush=True)
    draw(runs, png)


if __name__ == "__main__":
    typer.run(main)
