"""The plot of a demonstration: depth, marks, stops and rates over time (matplotlib, in the extra `load`)."""

from __future__ import annotations

from pathlib import Path

from load.recording import RATE_SECONDS, Recording

SIZE_INCHES = (11.0, 6.5)
DPI = 120


def draw(recording: Recording, path: Path, heading: str) -> None:
    """Write a PNG. ModuleNotFoundError without matplotlib, OSError if the file cannot be written."""
    import matplotlib as mpl  # late: a broker's machine need not have it

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    samples = recording.samples
    times = [sample.at for sample in samples]
    figure, (depth, rate) = plt.subplots(
        2, 1, sharex=True, figsize=SIZE_INCHES, height_ratios=(3, 2), layout="constrained"
    )
    figure.suptitle(heading)
    depth.fill_between(times, [sample.depth for sample in samples], step="post", color="tab:blue", alpha=0.35)
    depth.plot(times, [sample.depth for sample in samples], drawstyle="steps-post", color="tab:blue", label="depth")
    depth.axhline(recording.stop_count, color="tab:red", linestyle="--", label=f"stop mark {recording.stop_count:,}")
    depth.axhline(
        recording.resume_count, color="tab:green", linestyle="--", label=f"resume mark {recording.resume_count:,}"
    )
    depth.set_ylabel("messages in the queue")
    depth.set_ylim(bottom=0)
    rates = [recording.rates(at) for at in times]
    middles = [at - RATE_SECONDS / 2 for at in times]
    rate.plot(middles, [published for published, _ in rates], color="tab:orange", label="published/s")
    rate.plot(middles, [received for _, received in rates], color="tab:purple", label="consumed/s")
    rate.set_ylabel("messages a second")
    rate.set_xlabel("seconds")
    rate.set_ylim(bottom=0)
    for number, span in enumerate(recording.saturated_spans()):
        for axes in (depth, rate):
            label = "producers stopped" if number == 0 else None
            axes.axvspan(span.began, span.ended, color="tab:red", alpha=0.12, linewidth=0, label=label)
    for axes in (depth, rate):
        axes.grid(alpha=0.3)
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        axes.set_xlim(0, max(times, default=1.0))
    figure.savefig(path, dpi=DPI, format="png")
    plt.close(figure)
