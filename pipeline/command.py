"""The commands: `penstock pipeline …`, `python -m pipeline …`, or `spark-submit` with the latter's file."""

from __future__ import annotations

import importlib.util
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.text.durations import seconds_of
from pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

app = typer.Typer(
    help="What telemetry says: who was held, when queues are full, which shards are hot. On Spark.",
    no_args_is_help=True,
)

EXTRA = ("pyspark", "pyarrow", "pandas", "google.protobuf", "matplotlib", "pika")
DAY_US = 86_400_000_000

Root = Annotated[
    str, typer.Option("--telemetry", metavar="DIR", help="where nodes write telemetry; any path that Spark can read")
]
Master = Annotated[
    str | None,
    typer.Option(metavar="URL", help="where jobs run; else spark-submit's, else this machine", show_default=False),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="configuration of Spark; may be repeated", show_default=False),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME",
        help="begin: a time (UTC) or so long before the end, as in 90m; else a day",
        show_default=False,
    ),
]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="TIME", help="end: a time (UTC) or so long before now; else now", show_default=False),
]


@app.command()
def compact(
    root: Root,
    grace: Annotated[str, typer.Option(help="how long after its end an hour is waited for")] = "10m",
    keep_live: Annotated[
        str | None,
        typer.Option(
            help="remove live files that are compacted, so long after the end of their hour", show_default=False
        ),
    ] = None,
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Make Parquet of the hours that are over. To be run every hour; running it twice does no harm."""
    grace_us = _length(grace)
    keep_us = None if keep_live is None else _length(keep_live)
    spark = _session("compact", master, conf, little_java=True)
    from pipeline.compact import compact as run
    from pipeline.compact import remove_live
    from pipeline.files import Files

    now = _now()
    began = time.monotonic()
    for done in run(spark, root, now, grace_us):
        manifest = done.manifest
        seconds, began = time.monotonic() - began, time.monotonic()
        _tell(
            f"{done.hour} {done.table}: {done.files:,} files taken in, {manifest.rows:,} rows, "
            f"{manifest.duplicates:,} duplicates, {manifest.corrupt:,} corrupt, {seconds:.1f} s"
        )
        if manifest.unreadable:
            _tell(f"{done.hour} {done.table}: cannot be read: {', '.join(manifest.unreadable)}")
    if keep_us is not None:
        _tell(f"{remove_live(Files(spark), root, now, keep_us):,} live files removed")


@app.command()
def report(
    root: Root,
    since: From = None,
    until: To = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="write a page", show_default=False)] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write JSON; - for here", show_default=False)
    ] = None,
    longest_wait: Annotated[str, typer.Option(help="how long a message may wait in a queue")] = "60s",
    refill: Annotated[str, typer.Option(help="from a resume to the first new message")] = "250ms",
    stop_percent: Annotated[int, typer.Option(min=1, max=100, help="of its limit that a present stop mark is")] = 80,
    resume_percent: Annotated[
        int, typer.Option(min=0, max=100, help="of a new stop mark that its resume mark is")
    ] = 70,
    hot_factor: Annotated[float, typer.Option(min=1.0, help="load to the mean above which a shard is hot")] = 1.5,
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Answer all questions for a range of time, as a page and as JSON."""
    if html is None and json is None:
        raise PipelineError("say where to: --html FILE, --json FILE or both")
    begin, end = _range(since, until)
    wait_s, refill_s = _length(longest_wait) / 1e6, _length(refill) / 1e6
    spark = _session("report", master, conf)
    from pipeline.jobs.hot_shards import Limits
    from pipeline.jobs.marks import Goals
    from pipeline.read import Telemetry
    from pipeline.report.answers import gather
    from pipeline.report.as_json import as_json
    from pipeline.report.page import page

    goals = Goals(longest_wait_s=wait_s, refill_s=refill_s, stop_percent=stop_percent, resume_percent=resume_percent)
    gathered = gather(Telemetry(spark, root), begin, end, goals, Limits(factor=hot_factor), _tell)
    if html is not None:
        _write(html, page(gathered))
    if json is not None:
        _write(json, as_json(gathered))


@app.command()
def inputs(
    root: Root,
    output: Annotated[Path, typer.Option(metavar="FILE", help="JSON; - for here")],
    since: From = None,
    until: To = None,
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Write what `penstock rebalance plan` has to know of each queue."""
    begin, end = _range(since, until)
    spark = _session("inputs", master, conf)
    from pipeline.inputs import inputs as run
    from pipeline.read import Telemetry

    _write(output, run(Telemetry(spark, root), begin, end))


@app.command()
def alerts(
    root: Root,
    checkpoint: Annotated[
        str, typer.Option(metavar="DIR", help="where it remembers how far it is; kept over restarts")
    ],
    url: Annotated[str, typer.Option(help="broker to which alerts are published")] = "amqp://guest:guest@127.0.0.1/",
    exchange: Annotated[str, typer.Option(help="topic exchange for them; it is declared")] = "penstock.alerts",
    full_in: Annotated[str, typer.Option(help="a queue that is full within that time")] = "10m",
    hot: Annotated[float, typer.Option(min=1.0, help="a shard with so many times the mean load of its node")] = 1.5,
    held: Annotated[str, typer.Option(help="a producer that is held for that long")] = "30s",
    trigger: Annotated[str, typer.Option(help="how often new files are looked for")] = "1s",
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Watch telemetry as it is written and publish alerts, until SIGTERM or Ctrl-C."""
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
        _tell(f"watching {root}, alerts on exchange '{exchange}'")
        watching.run()
    except KeyboardInterrupt:
        _tell("asked to stop")
    finally:
        watching.stop()


def _session(name: str, master: str | None, conf: list[str] | None, little_java: bool = False) -> SparkSession:
    """A session. PipelineError without the extra."""
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
    missing = [module for module in EXTRA if not _is_there(module)]
    if missing:
        raise PipelineError(f"not installed: {', '.join(missing)}: pip install 'penstock[pipeline]'")


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it is in
        return False


def _range(since: str | None, until: str | None) -> tuple[int, int]:
    """Begin and end in µs since 1970. PipelineError if that is none."""
    end = _now() if until is None else _moment(until, _now())
    begin = end - DAY_US if since is None else _moment(since, end)
    if begin >= end:
        raise PipelineError(f"--from {since} is not before --to {until or 'now'}")
    return begin, end


def _moment(text: str, before: int) -> int:
    """µs since 1970 of a time (UTC unless it says otherwise), or of so long before another."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return before - _length(text, "a time as in 2026-11-20T13:00, or so long before")
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e6)


def _length(text: str, wanted: str = "a length of time") -> int:
    """µs."""
    try:
        return int(seconds_of(text) * 1e6)
    except ValueError as error:
        raise PipelineError(f"{error}; {wanted} was expected") from None


def _now() -> int:
    return time.time_ns() // 1000


def _write(path: Path, text: str) -> None:
    try:
        if str(path) == "-":
            sys.stdout.write(text)
        else:
            path.write_text(text)
            _tell(f"wrote {path}")
    except OSError as error:
        raise PipelineError(f"{path} cannot be written: {error.strerror}") from error


def _tell(text: str) -> None:
    """How far it is, for who waits."""
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)
