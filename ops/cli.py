"""The command `penstock`."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from ops import configuration
from ops.administration import (
    channel,
    connection,
    consumer,
    definitions,
    exchange,
    permission,
    policy,
    queue,
    restart,
    topic_permission,
    user,
    vhost,
)
from ops.compiled import refusal
from ops.errors import CommandError, StartError
from ops.flow import command as flow
from ops.naming import Config, Data, inherited
from ops.rebalance import command as rebalance
from ops.shards import command as shards
from ops.store import command as store
from penstock import __version__
from penstock.node import logs
from penstock.settings import Settings
from penstock.settings.sources import SettingsError, load_settings, read_configuration
from pipeline import command as pipeline
from pipeline.errors import PipelineError

app = typer.Typer(
    name="penstock",
    help="An AMQP 0-9-1 broker with producer flow control.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)

app.add_typer(vhost.app, name="vhost")
app.add_typer(policy.app, name="policy")
app.add_typer(queue.app, name="queue")
app.add_typer(connection.app, name="connection")
app.add_typer(channel.app, name="channel")
app.add_typer(consumer.app, name="consumer")
app.add_typer(exchange.app, name="exchange")
app.add_typer(exchange.bindings, name="binding")
app.add_typer(definitions.app, name="definitions")
app.add_typer(user.app, name="user")
app.add_typer(permission.app, name="permission")
app.add_typer(topic_permission.app, name="topic-permission")
app.add_typer(restart.app, name="restart")
app.add_typer(configuration.app, name="config")
app.add_typer(store.app, name="store")
app.add_typer(flow.app, name="flow")
app.add_typer(rebalance.app, name="rebalance")
app.add_typer(shards.app, name="shard")
app.add_typer(pipeline.app, name="pipeline")


def _option(name: str, **more: Any) -> Any:
    """Return an option for the setting `name`, with the setting's description as its help."""
    return typer.Option(help=Settings.model_fields[name].description, show_default=False, **more)


Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="set any setting by its dotted key; may be repeated", show_default=False
    ),
]
DataOption = Annotated[Path | None, _option("data", metavar="DIR", callback=inherited)]


@app.command()
def serve(
    config: Config = None,
    host: Annotated[str | None, _option("host")] = None,
    port: Annotated[int | None, _option("port")] = None,
    acceptors: Annotated[int | None, _option("acceptors")] = None,
    shards: Annotated[int | None, _option("shards")] = None,
    data: DataOption = None,
    log_level: Annotated[str | None, _option("log_level")] = None,
    assignments: Assignments = None,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C. SIGHUP reloads the configuration.

    Prints one line, `penstock ready amqp=HOST:PORT pid=PID`, once the broker accepts connections. Settings come from
    the file, then from PENSTOCK_… variables, then from these options; later sources win.
    """
    flags = {"host": host, "port": port, "acceptors": acceptors, "shards": shards, "data": data, "log_level": log_level}
    read = partial(read_configuration, config, flags, assignments or ())
    configuration = read()
    if (reason := refusal()) is not None:
        raise StartError(reason)
    from ops.serve import serve as run  # not at the top: it imports compiled modules

    logs.configure(configuration.settings, "supervisor", 0)
    run(configuration, read)


@app.command()
def status(
    config: Config = None,
    data: DataOption = None,
    json: Annotated[bool, typer.Option("--json", help="print one JSON object instead of tables")] = False,
) -> None:
    """Show the processes and queues of the node that runs on a data directory.

    Reads shared memory only, so it works while the node's processes are busy and costs them nothing. Exit status 1 if
    no node runs there.
    """
    settings = load_settings(config, {"data": data})
    from ops.status import NotRunning, show

    try:
        show(settings.data, as_json=json)
    except NotRunning as reason:
        print(f"penstock: {reason}", file=sys.stderr)
        raise typer.Exit(1) from None


@app.command()
def ping(config: Config = None, data: DataOption = None) -> None:
    """Check that the node serves: all of its processes are ready, and alive. Exit status 1, with the reason, if not.

    Reads shared memory only, for a probe as often as one likes. Example: penstock ping --data /var/lib/penstock
    """
    settings = load_settings(config, {"data": data})
    from ops.status import NotRunning
    from ops.status import ping as address_of

    try:
        print(f"serving on {address_of(settings.data)}")
    except NotRunning as reason:
        print(f"penstock: {reason}", file=sys.stderr)
        raise typer.Exit(1) from None


@app.command()
def health(
    config: Config = None,
    data: DataOption = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON instead of lines")] = False,
) -> None:
    """Check the node: its processes, its port with a connection of its own, its shards and its limits.

    Exit status 1 if a check fails. Example: penstock health --data /var/lib/penstock
    """
    settings = load_settings(config, {"data": data})
    from ops import health
    from ops.status import NotRunning

    try:
        found = health.checks(settings.data)
    except NotRunning as reason:
        print(f"penstock: {reason}", file=sys.stderr)
        raise typer.Exit(1) from None
    print(health.as_json(found) if json else "\n".join(health.lines(found)))
    if not all(check.passed for check in found):
        raise typer.Exit(1)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def options(
    config: Config = None,
    data: Data = None,
    _version: Annotated[
        bool, typer.Option("--version", help="show the version and exit", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options before a command: `--config` and `--data` select the node for every command."""


def main() -> NoReturn:
    """Run the command and exit: with 0, 1 where its help says so, 2 for an error of the caller, or 130 on Ctrl-C."""
    try:
        code = app(prog_name="penstock", standalone_mode=False)
    except (StartError, SettingsError, CommandError, PipelineError) as error:
        _refuse(str(error))
    except typer.TyperException as error:
        _refuse(" ".join(error.format_message().split()))
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    sys.exit(code or 0)


def _refuse(reason: str) -> NoReturn:
    if reason:  # empty if no command was given: the help has been shown
        print(f"penstock: {reason}", file=sys.stderr)
    sys.exit(2)
