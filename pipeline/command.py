"""The commands: `penstock pipeline …`, `python -m pipeline …`, or `spark-submit` with penstock/programs.py."""

from __future__ import annotations

import importlib.util
import signal
import sys
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.text.durations import seconds_of
from pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

app = typer.Typer(
    no_args_is_help=True,
)

EXTRA = ("pyspark", "pyarrow", "pandas", "jinja2", "pika")
DAY_US = 86_400_000_000

Root = Annotated[
    str, typer.Option("--telemetry", metavar="DIR", help="where nodes write telemetry; any path that Spark can read")
]
Master = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Spark's master; default: spark-submit's, or this machine", show_default=False),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="a Spark setting; may be repeated", show_default=False),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME",
        help="start: a time (UTC), or a length of time before the end, such as 90m; default: a day",
        show_default=False,
    ),
]
To = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="TIME",
        help="end: a time (UTC), or a length of time before now; default: now",
        show_default=False,
    ),
]
Exact = Annotated[
    bool, typer.Option("--exact", help="read the rows of a long range too; without it summaries answer for whole hours")
]
JobLimit = Annotated[str, typer.Option(help="how long one job may take before the command fails")]


@app.command()
def compact(
    root: Root,
    grace: Annotated[str, typer.Option(help="time after its end before an hour is compacted")] = "10m",
    keep_live: Annotated[
        str | None,
        typer.Option(help="remove compacted live files this long after the end of their hour", show_default=False),
    ] = None,
    job_limit: JobLimit = "1h",
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Convert closed hours to Parquet. Run it every hour; running it twice does no harm.

    Example: penstock pipeline compact --telemetry /var/lib/penstock/telemetry
    """
    grace_us = _length(grace)
    keep_us = None if keep_live is None else _length(keep_live)
    limit_s = _length(job_limit) / 1e6
    spark = _session("compact", master, conf, little_java=True)
    from pipeline.compact import compact as run
    from pipeline.compact import remove_live
    from pipeline.files import Files
    from pipeline.summarize import summarize

    now = _now()
    began = time.monotonic()
    for done in run(spark, root, now, grace_us, limit_s=limit_s):
        manifest = done.manifest
        seconds, began = time.monotonic() - began, time.monotonic()
        _report_progress(
            f"{done.hour} {done.table}: {done.files:,} files compacted, {manifest.rows:,} rows, "
            f"{manifest.duplicates:,} duplicates, {manifest.corrupt:,} corrupt, {seconds:.1f} s"
        )
        if manifest.unreadable:
            _report_progress(f"{done.hour} {done.table}: unreadable files: {', '.join(manifest.unreadable)}")
    for made in summarize(spark, root, now, grace_us, limit_s):
        _report_progress(f"{made.span} {made.dataset}: {made}")
    if keep_us is not None:
        _report_progress(f"{remove_live(Files(spark), root, now, keep_us):,} live files removed")


@app.command()
def report(
    root: Root,
    since: From = None,
    until: To = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="write an HTML page", show_default=False)] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write JSON; - for stdout", show_default=False)
    ] = None,
    longest_wait: Annotated[str, typer.Option(help="how long a message may wait in a queue")] = "60s",
    refill: Annotated[str, typer.Option(help="time from a resume to the first new message")] = "250ms",
    stop_percent: Annotated[
        int, typer.Option(min=1, max=100, help="a present stop mark as a percentage of its limit")
    ] = 80,
    resume_percent: Annotated[
        int, typer.Option(min=0, max=100, help="a new resume mark as a percentage of its stop mark")
    ] = 70,
    hot_factor: Annotated[
        float, typer.Option(min=1.0, help="load relative to the node's mean above which a shard is hot")
    ] = 1.5,
    exact: Exact = False,
    job_limit: JobLimit = "1h",
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Answer all questions for a range of time, as a page, as JSON, or both.

    Example: penstock pipeline report --telemetry DIR --html report.html
    """
    if html is None and json is None:
        raise PipelineError("no output given: use --html FILE, --json FILE or both")
    begin, end = _range(since, until)
    wait_s, refill_s, limit_s = (_length(text) / 1e6 for text in (longest_wait, refill, job_limit))
    spark = _session("report", master, conf)
    from pipeline.jobs.hot_shards import Limits
    from pipeline.jobs.marks import Goals
    from pipeline.read import Telemetry
    from pipeline.report.answers import gather
    from pipeline.report.as_json import as_json
    from pipeline.report.page import page

    goals = Goals(longest_wait_s=wait_s, refill_s=refill_s, stop_percent=stop_percent, resume_percent=resume_percent)
    limits = Limits(factor=hot_factor)
    gathered = gather(Telemetry(spark, root), begin, end, goals, limits, _report_progress, limit_s, exact=exact)
    if html is not None:
        _write(html, page(gathered))
    if json is not None:
        _write(json, as_json(gathered))


@app.command()
def inputs(
    root: Root,
    output: Annotated[Path, typer.Option(metavar="FILE", help="JSON; - for stdout")],
    since: From = None,
    until: To = None,
    exact: Exact = False,
    job_limit: JobLimit = "1h",
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Write the facts of each queue that `penstock rebalance plan` needs.

    Example: penstock pipeline inputs --telemetry DIR --output inputs.json
    """
    begin, end = _range(since, until)
    limit_s = _length(job_limit) / 1e6
    spark = _session("inputs", master, conf)
    from pipeline.inputs import inputs as run
    from pipeline.read import Telemetry

    _write(output, run(Telemetry(spark, root), begin, end, _report_progress, limit_s, exact=exact))


@app.command()
def backtest(
    root: Root,
    since: From = None,
    until: To = None,
    job_limit: JobLimit = "1h",
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Show how often "full within an hour" was true in a range of time, by the fit of the forecast's line, and "full
    within ten minutes" by the lines of alerts.

    Example: penstock pipeline backtest --telemetry DIR --from 2026-11-01 --to 2026-11-08
    """
    begin, end = _range(since, until)
    limit_s = _length(job_limit) / 1e6
    spark = _session("backtest", master, conf)
    from pipeline.backtest import backtest as run
    from pipeline.backtest import records, summary
    from pipeline.jobs.forecasts import ALERT, HOUR, Horizon
    from pipeline.read import Telemetry
    from pipeline.recovery import on_readable_files
    from pipeline.runner import Runner

    telemetry = Telemetry(spark, root)
    with Runner(spark, limit_s) as runner:

        def job(horizon: Horizon) -> list[Row]:
            frame = run(telemetry.rows("depth", begin, end), begin, end, horizon)
            return runner.run("back-test", frame.collect)

        for title, horizon in (("full within an hour", HOUR), ("full within ten minutes, for alerts", ALERT)):
            found = records(on_readable_files(telemetry, runner, partial(job, horizon), _report_progress))
            print(f"{title}:", *found, summary(found, horizon), sep="\n")


@app.command()
def alerts(
    root: Root,
    checkpoint: Annotated[str, typer.Option(metavar="DIR", help="where it keeps its progress across restarts")],
    url: Annotated[str, typer.Option(help="broker to which alerts are published")] = "amqp://guest:guest@127.0.0.1/",
    exchange: Annotated[str, typer.Option(help="topic exchange for alerts, declared if missing")] = "penstock.alerts",
    full_in: Annotated[str, typer.Option(help="alert if a queue will be full within this time")] = "10m",
    hot: Annotated[
        float, typer.Option(min=1.0, help="alert if a shard's load is this many times the mean of its node")
    ] = 1.5,
    held: Annotated[str, typer.Option(help="alert if a producer is held this long")] = "30s",
    trigger: Annotated[str, typer.Option(help="interval at which new files are looked for")] = "1s",
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Watch telemetry as nodes write it and publish alerts, until SIGTERM or Ctrl-C.

    Example: penstock pipeline alerts --telemetry DIR --checkpoint DIR --url amqp://ann:secret@host/
    """
    full_s, held_s, trigger_s = (_length(text) / 1e6 for text in (full_in, held, trigger))
    _need_extra()
    from pipeline.alerts.board import Limits
    from pipeline.alerts.publisher import Publisher

    publisher = Publisher(url, exchange)
    publisher.check()
    spark = _session("alerts", master, conf)
    from pipeline.alerts.streams import Alerts

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    watching = Alerts(spark, root, checkpoint, Limits(full_s, hot, held_s), publisher.publish, trigger_s)
    try:
        watching.start()
        _report_progress(f"watching {root}, alerts on exchange '{exchange}'")
        watching.run()
    except KeyboardInterrupt:
        _report_progress("stopping")
    finally:
        watching.stop()


def _session(name: str, master: str | None, conf: list[str] | None, little_java: bool = False) -> SparkSession:
    """Open a Spark session. PipelineError without the extra."""
    _need_extra()
    from pipeline.session import LOCAL_LITTLE_JAVA, open_session

    configuration = {}
    for pair in conf or ():
        key, equals, value = pair.partition("=")
        if not equals or not key.startswith("spark."):
            raise PipelineError(f"--conf {pair}: write spark.KEY=VALUE")
        configuration[key] = value
    return open_session(f"penstock {name}", master, configuration, LOCAL_LITTLE_JAVA if little_java else None)


def _need_extra() -> None:
    missing = [module for module in EXTRA if importlib.util.find_spec(module) is None]
    if missing:
        raise PipelineError(f"not installed: {', '.join(missing)}: pip install 'penstock[pipeline]'")


def _range(since: str | None, until: str | None) -> tuple[int, int]:
    """Return start and end in µs since 1970. PipelineError if the start is not before the end."""
    end = _now() if until is None else _moment(until, _now())
    begin = end - DAY_US if since is None else _moment(since, end)
    if begin >= end:
        raise PipelineError(f"--from {since} is not before --to {until or 'now'}")
    return begin, end


def _moment(text: str, before: int) -> int:
    """Parse a time (UTC unless it has an offset), or a length of time before `before`, as µs since 1970."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return before - _length(text, "a time such as 2026-11-20T13:00, or a length of time")
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e6)


def _length(text: str, wanted: str = "a length of time") -> int:
    """Parse a length of time in µs. PipelineError if it is none."""
    try:
        return int(seconds_of(text) * 1e6)
    except ValueError as error:
        raise PipelineError(f"{error}; expected {wanted}") from None


def _now() -> int:
    return time.time_ns() // 1000


def _write(path: Path, text: str) -> None:
    try:
        if str(path) == "-":
            sys.stdout.write(text)
        else:
            path.write_text(text)
            _report_progress(f"wrote {path}")
    except OSError as error:
        raise PipelineError(f"{path} cannot be written: {error.strerror}") from error


def _report_progress(text: str) -> None:
    """Print progress on stderr."""
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)
