"""The commands of `penstock rebalance`."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from ops.administration.node import AsJson, ask
from ops.errors import CommandError
from ops.naming import Data, data_directory
from ops.operator_name import operator_name
from ops.rebalance import show
from ops.rebalance.automatic import Pause, PauseFile, automatic_facts
from ops.rebalance.configured import limits_of, rules_of
from ops.rebalance.files import plan_text, read_rows
from ops.rebalance.making import make_plan
from ops.rebalance.node import RunningNode
from ops.rebalance.plan import Plan, PlanError, undo_plan
from ops.rebalance.records import Facts, Records, summary
from ops.rebalance.running import MOVES_AT_ONCE_MAX, Run
from ops.rebalance.verifying import homes_wrong, not_done
from penstock.node import clock
from penstock.text.amounts import AmountError, size
from penstock.text.durations import seconds_of

CPU_SECONDS = 1.0
"""How long CPU use is measured if rows come from a file."""

app = typer.Typer(
    no_args_is_help=True,
)

PlanName = Annotated[str, typer.Argument(metavar="PLAN", help="id of the plan, or its file")]
OptionalPlan = Annotated[str | None, typer.Argument(metavar="[PLAN]", help="id of the plan", show_default=False)]
Window = Annotated[str, typer.Option("--window", metavar="TIME", help="how long to watch the gauges")]
MessagesRate = Annotated[
    int | None,
    typer.Option("--messages-per-second", metavar="N", min=0, help="average copying rate; 0: any", show_default=False),
]
BytesRate = Annotated[
    str | None,
    typer.Option("--bytes-per-second", metavar="SIZE", help="average copying rate; 0: any", show_default=False),
]
Moves = Annotated[
    int | None,
    typer.Option(
        "--moves", metavar="N", min=0, max=MOVES_AT_ONCE_MAX, help="moves at a time; 0: begin none", show_default=False
    ),
]
LoopLag = Annotated[
    float | None,
    typer.Option(
        "--loop-lag-ms", metavar="MS", min=0, help="begin no move above this loop lag; 0: any", show_default=False
    ),
]
Stopped = Annotated[
    float | None,
    typer.Option(
        "--stopped-percent",
        metavar="N",
        min=0,
        help="begin no move with more channels held; 0: any",
        show_default=False,
    ),
]
Fill = Annotated[
    float | None,
    typer.Option(
        "--fill-percent", metavar="N", min=0, help="begin no move with a fuller shard; 0: any", show_default=False
    ),
]


@app.command()
def plan(
    inputs: Annotated[
        Path | None,
        typer.Option("--inputs", metavar="FILE", help="written by `penstock pipeline inputs`", show_default=False),
    ] = None,
    window: Window = "30 s",
    low_rate: Annotated[
        float | None, typer.Option(metavar="N", min=0, help="leave shards below N messages/s", show_default=False)
    ] = None,
    moves_max: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="make at most N moves", show_default=False)
    ] = None,
    min_coverage: Annotated[
        int | None, typer.Option(metavar="PERCENT", min=0, max=100, help="share of samples needed", show_default=False)
    ] = None,
    pin: Annotated[
        list[str] | None,
        typer.Option("--pin", metavar="PATTERN", help="leave these: VHOST/QUEUE, with * and ?", show_default=False),
    ] = None,
    exclude: Annotated[
        list[int] | None, typer.Option("--exclude-shard", metavar="N", help="move nothing to it", show_default=False)
    ] = None,
    leave: Annotated[
        list[int] | None, typer.Option("--leave-shard", metavar="N", help="move everything off it", show_default=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="also write the plan there", show_default=False)
    ] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Make a plan of moves and show it; nothing is moved. The plan is kept for `apply`, by its id.

    The load of queues is watched for a while, or read from a file; their depths and places are the present ones.

    Example: penstock rebalance plan --window 5m --moves-max 10
    """
    node, now = RunningNode(data), clock.now()
    rules = rules_of(node.settings.rebalance, low_rate, moves_max, min_coverage, pin, exclude, leave)
    unknown = (rules.excluded | rules.leaving) - set(node.placement()["shards"])
    if unknown:
        raise CommandError(f"there is no shard {min(unknown)}")
    if inputs is None:
        source = f"gauges, {window}"
        with show.progress_bar(_seconds("--window", window), "watching queues") as on_progress:
            rows, world = node.watched(_seconds("--window", window), on_progress)
    else:
        source = str(inputs)
        rows, world = node.recorded(read_rows(inputs, node.telemetry_name), CPU_SECONDS)
    try:
        lasts = node.settings.rebalance.plan_seconds
        pause_ms = Records(directory_of(data)).expected_pause()
        made = make_plan(rows, world, rules, source=source, now=now, lasts=lasts, pause_ms=pause_ms)
    except PlanError as error:
        raise CommandError(str(error)) from None
    if output is not None:
        _write(output, made)
    _keep_and_show(made, data, as_json)


@app.command()
def apply(
    name: PlanName,
    messages_per_second: MessagesRate = None,
    bytes_per_second: BytesRate = None,
    moves: Moves = None,
    loop_lag_ms: LoopLag = None,
    stopped_percent: Stopped = None,
    fill_percent: Fill = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Make the moves of a plan. Ctrl-C ends it cleanly; repeat the command to continue.

    Exit status 1 unless all moves are made.

    Example: penstock rebalance apply PLAN --bytes-per-second '50 MB'
    """
    records, node = Records(directory_of(data)), RunningNode(data)
    wanted = records.plan(name)
    records.keep(wanted)
    given = given_limits(messages_per_second, bytes_per_second, moves, loop_lag_ms, stopped_percent, fill_percent)
    limits = replace(limits_of(node.settings.rebalance), **given)
    run = Run(node, records, wanted, limits, partial(_print, to_stderr=as_json))
    ended = run.run()
    if as_json:
        facts = summary(wanted.id, records.of_plan(wanted.id), applying=False)
        print(orjson.dumps(facts, option=orjson.OPT_INDENT_2).decode())
    else:
        print(f"plan {wanted.id}: {ended.state}" + (f", {ended.reason}" if ended.reason else ""))
    if ended.state != "applied":
        raise typer.Exit(1)


@app.command()
def status(data: Data = None, as_json: AsJson = False) -> None:
    """Show the plan that is being applied: its progress, its limits, and the cause of a wait.

    Also shows what automatic rebalancing does, and why.

    Example: penstock rebalance status --json
    """
    lease, automatic = ask(data, "rebalance_lease"), automatic_facts(data)
    if as_json:
        facts = {"applying": lease, "automatic": automatic}
        print(orjson.dumps(facts, option=orjson.OPT_INDENT_2).decode())
        return
    if lease is None:
        last = _history(data)[-1:]
        print("no plan is being applied" + (f"; the last was {last[0]['plan']}: {last[0]['state']}" if last else ""))
    else:
        show.show_lease(lease)
    show.show_automatic(automatic)


@app.command()
def pause(
    lasting: Annotated[
        str | None, typer.Argument(metavar="[TIME]", help="how long, as 2h; else until resumed", show_default=False)
    ] = None,
    data: Data = None,
) -> None:
    """Pause automatic rebalancing at once. A plan that it applies ends. Restarts of the node do not end the pause.

    Example: penstock rebalance pause 2h
    """
    until = None if lasting is None else time.time() + _seconds("TIME", lasting)
    PauseFile(directory_of(data)).write(Pause(operator_name(), until))
    print("automatic rebalancing is paused " + ("until it is resumed" if until is None else f"until {show.at(until)}"))


@app.command()
def resume(data: Data = None) -> None:
    """End a pause of automatic rebalancing.

    Example: penstock rebalance resume
    """
    ended = PauseFile(directory_of(data)).remove()
    print("automatic rebalancing is no longer paused" if ended else "automatic rebalancing was not paused")


@app.command()
def limit(
    messages_per_second: MessagesRate = None,
    bytes_per_second: BytesRate = None,
    moves: Moves = None,
    loop_lag_ms: LoopLag = None,
    stopped_percent: Stopped = None,
    fill_percent: Fill = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Change the limits of the plan that is being applied.

    Example: penstock rebalance limit --messages-per-second 10000
    """
    given = given_limits(messages_per_second, bytes_per_second, moves, loop_lag_ms, stopped_percent, fill_percent)
    if not given:
        raise CommandError("no limit is given")
    _show_lease(ask(data, "rebalance_limit", limits=given), as_json)


@app.command()
def abort(name: OptionalPlan = None, data: Data = None, as_json: AsJson = False) -> None:
    """End the plan that is being applied. The present move is rolled back if it still can be.

    Example: penstock rebalance abort PLAN
    """
    _show_lease(ask(data, "rebalance_abort", plan=name), as_json)


@app.command()
def verify(name: OptionalPlan = None, window: Window = "0 s", data: Data = None, as_json: AsJson = False) -> None:
    """Check that each queue is on exactly the shard where the router has it, and those of a plan on their targets.

    With `--window` the load of the shards is measured as well. Exit status 1 if anything is wrong.

    Example: penstock rebalance verify PLAN
    """
    node = RunningNode(data)
    wanted = None if name is None else Records(directory_of(data)).plan(name)
    placement = node.placement()
    held = {shard: node.processes.ask("shard", shard, "queues") for shard in placement["shards"]}
    wrong = homes_wrong(placement, held) + ([] if wanted is None else not_done(wanted, placement))
    facts: Facts = {"queues": len(placement["queues"]), "placement_version": placement["version"], "wrong": wrong}
    if seconds := _seconds("--window", window):
        rules = replace(rules_of(node.settings.rebalance), min_coverage=0.0)
        with show.progress_bar(seconds, "watching shards") as on_progress:
            rows, world = node.watched(seconds, on_progress)
        seen = make_plan(rows, world, rules, source="gauges", now=clock.now(), lasts=0.0)
        facts["load"] = seen.before["load"]
        facts["planned"] = None if wanted is None else wanted.after["load"]
    if as_json:
        print(orjson.dumps(facts, option=orjson.OPT_INDENT_2).decode())
    else:
        for line in wrong:
            print(show.readable(line))
        load = f"; most load/mean {facts['load']['max_over_mean']:.2f}" if "load" in facts else ""
        planned = f", planned {facts['planned']['max_over_mean']:.2f}" if facts.get("planned") else ""
        print(f"{facts['queues']} queues, {len(wrong)} misplaced{load}{planned}")
    if wrong:
        raise typer.Exit(1)


@app.command()
def undo(name: PlanName, data: Data = None, as_json: AsJson = False) -> None:
    """Make the plan that reverts a plan's moves, and show it; nothing is moved. `apply` it by its id.

    Example: penstock rebalance undo PLAN
    """
    node, records = RunningNode(data), Records(directory_of(data))
    lasts = node.settings.rebalance.plan_seconds
    made = undo_plan(records.plan(name), node.world(), now=clock.now(), lasts=lasts)
    _keep_and_show(made, data, as_json)


@app.command()
def history(name: OptionalPlan = None, data: Data = None, as_json: AsJson = False) -> None:
    """List the plans that were applied, or the moves of one with their results. The node need not run.

    Plans that automatic rebalancing has kept for an operator are listed as well.

    Example: penstock rebalance history PLAN
    """
    if name is None:
        found = _history(data)
        if as_json or not found:
            print(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode() if as_json else "no plan was applied")
        else:
            show.show_history(found)
        return
    records = [each for each in Records(directory_of(data)).of_plan(name) if each["event"] == "move"]
    if as_json:
        print(orjson.dumps(records, option=orjson.OPT_INDENT_2).decode())
    elif records:
        show.show_moves(records)
    else:
        raise CommandError(f"plan '{name}' was not applied")


def given_limits(
    messages: int | None, nbytes: str | None, moves: int | None, lag: float | None, stopped: float | None,
    fill: float | None,
) -> dict[str, Any]:  # fmt: skip
    """Return the limits that are given, by name."""
    try:
        amount = None if nbytes is None else size(nbytes)
    except AmountError as error:
        raise CommandError(f"--bytes-per-second: {error}") from None
    values = {
        "messages_per_second": messages,
        "bytes_per_second": amount,
        "moves": moves,
        "loop_lag_ms": lag,
        "stopped_percent": stopped,
        "fill_percent": fill,
    }
    return {name: value for name, value in values.items() if value is not None}


def _keep_and_show(made: Plan, data: Path | None, as_json: bool) -> None:
    Records(directory_of(data)).keep(made)
    if as_json:
        print(plan_text(made), end="")
        return
    show.show_plan(made, clock.now())
    if made.moves:
        print(f"nothing has been moved yet: `penstock rebalance apply {made.id}` does it")


def _history(data: Path | None) -> list[Facts]:
    """Return the history of each plan, the latest last. One without an end that is not being applied is interrupted."""
    try:
        lease = ask(data, "rebalance_lease")
    except CommandError:  # the node does not run
        lease = None
    applying = None if lease is None else lease["plan"]
    return [summary(id, found, id == applying) for id, found in Records(directory_of(data)).by_plan().items()]


def _show_lease(lease: Facts, as_json: bool) -> None:
    if as_json:
        print(orjson.dumps(lease, option=orjson.OPT_INDENT_2).decode())
    else:
        show.show_lease(lease)


def _seconds(option: str, text: str) -> float:
    try:
        return seconds_of(text)
    except ValueError as error:
        raise CommandError(f"{option}: {error}") from None


def _write(path: Path, made: Plan) -> None:
    try:
        path.write_text(plan_text(made), encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}") from None


def directory_of(data: Path | None) -> Path:
    """Return the data directory of the command. CommandError if it does not exist."""
    return data_directory(data)


def _print(line: str, *, to_stderr: bool) -> None:
    print(show.readable(line), file=sys.stderr if to_stderr else sys.stdout, flush=True)
