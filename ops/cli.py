"""The command `penstock`."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any, NoReturn

import typer

from ops.deferred import MARKUP, Deferred, DeferredGroup
from ops.errors import CommandError, ForkEnded, StartError
from ops.naming import Config, Data
from penstock import __version__
from penstock.settings.errors import SettingsError
from pipeline.errors import PipelineError

UNREAD = 1
"""The status with which Rich and Typer end a help text that nobody reads to its end; commands return theirs."""

COMMANDS = (
    Deferred(
        "serve", "Run a broker until SIGTERM or Ctrl-C. SIGHUP reloads the configuration.", "ops.serve_command:serve"
    ),
    Deferred(
        "status",
        "Show the processes and queues of the node that runs on a data directory.",
        "ops.status_command:status",
    ),
    Deferred(
        "top",
        "Watch a node: rates, held producers, processes, and the queues that are fullest.",
        "ops.top:top",
    ),
    Deferred(
        "ping",
        "Check that the node serves: all processes that clients need are ready, and alive.",
        "ops.status_command:ping",
    ),
    Deferred(
        "health",
        "Check the node: its processes, its port with a connection of its own, its shards and its limits.",
        "ops.status_command:health",
    ),
    Deferred(
        "init",
        "Write a first configuration, with what its defaults come to on this machine.",
        "ops.initial:init",
    ),
    Deferred(
        "doctor",
        "Check the surroundings of a node: limits, memory, kernel, clocks, disk, ports.",
        "ops.doctor.command:doctor",
    ),
    Deferred(
        "support",
        "Write one file with what a report of a defect needs, without secrets.",
        "ops.support:support",
    ),
    Deferred(
        "metrics",
        "Print the metrics of a node, as Prometheus reads them.",
        "ops.metrics_command:metrics",
    ),
    Deferred(
        "api",
        "Send requests to the HTTP interface of a running node, without a login.",
        "ops.api_command:api",
    ),
    Deferred(
        "vhost",
        "Virtual hosts of a running node: separate exchanges, queues and permissions.",
        "ops.administration.vhost:app",
    ),
    Deferred(
        "policy",
        "Policies of a running node: limits and features of queues and exchanges, by their names.",
        "ops.administration.policy:app",
    ),
    Deferred(
        "queue",
        "Queues of a running node: declare, purge, delete and move them, look at their messages.",
        "ops.administration.queue:app",
    ),
    Deferred(
        "message",
        "Messages of queues: move and copy them, send dead letters back, export and import.",
        "ops.relay.command:app",
    ),
    Deferred(
        "relay",
        "Relays of a running node, which bring messages from queue to queue: list and restart them.",
        "ops.relay.node_command:app",
    ),
    Deferred(
        "connection",
        "Connections of a running node's clients: list and close them.",
        "ops.administration.connection:app",
    ),
    Deferred("channel", "Channels of a running node's clients.", "ops.administration.channel:app"),
    Deferred("consumer", "Consumers of a running node's clients.", "ops.administration.consumer:app"),
    Deferred("exchange", "Exchanges of a running node.", "ops.administration.exchange:app"),
    Deferred("binding", "Bindings of a running node.", "ops.administration.exchange:bindings"),
    Deferred(
        "definitions",
        "Definitions of a running node: vhosts, users, policies, exchanges, queues and bindings as a file.",
        "ops.administration.definitions:app",
    ),
    Deferred(
        "migrate",
        "Bring the messages of another AMQP 0-9-1 broker here, or back, while its clients are moved.",
        "ops.relay.migration:migrate",
    ),
    Deferred("user", "Users of a running node, their passwords and tags.", "ops.administration.user:app"),
    Deferred(
        "permission",
        "Permissions of users in vhosts: regular expressions for the names of queues and exchanges.",
        "ops.administration.permission:app",
    ),
    Deferred(
        "topic-permission",
        "Routing keys of topic exchanges with which users may publish and bind; all, unless permissions are set.",
        "ops.administration.topic_permission:app",
    ),
    Deferred(
        "restart", "Replace processes of a running node while it goes on serving.", "ops.administration.restart:app"
    ),
    Deferred(
        "upgrade",
        "Replace every process of a running node by one of the installed release, while the node serves.",
        "ops.upgrade.command:upgrade",
    ),
    Deferred("config", "The configuration of a node: a file, the environment and defaults.", "ops.configuration:app"),
    Deferred(
        "tls",
        "TLS of listeners: make certificates for development, show and check what is served.",
        "ops.tls.command:app",
    ),
    Deferred("store", "Stores of a node: check, back up, compact, dump, restore, salvage.", "ops.store.command:app"),
    Deferred(
        "flow",
        "Show which producers are held, why and for how much longer; stop producers by hand.",
        "ops.flow.command:app",
    ),
    Deferred(
        "rebalance",
        "Even out the load of shards by moving queues: make plans, apply them, follow them.",
        "ops.rebalance.command:app",
    ),
    Deferred(
        "shard",
        "Shards of a running node: add, drain and remove them. Changes survive a restart of the node.",
        "ops.shards.command:app",
    ),
    Deferred(
        "pipeline", "Analyse telemetry on Spark: held producers, full queues, hot shards.", "pipeline.command:app"
    ),
)


class Penstock(DeferredGroup):
    """The command itself."""

    deferred = COMMANDS

    def invoke(self, ctx: Any) -> Any:
        """Carry the command out. Whoever reads its output may stop, as `head` does: that is no error."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(0) from None
        return result


app = typer.Typer(
    cls=Penstock,
    name="penstock",
    help="An AMQP 0-9-1 broker with producer flow control.",
    no_args_is_help=True,
    rich_markup_mode=MARKUP,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


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
    except ForkEnded:
        raise
    except SystemExit as end:
        sys.exit(0 if end.code == UNREAD else end.code)
    sys.exit(code or 0)


def _refuse(reason: str) -> NoReturn:
    if reason:  # empty if no command was given: the help has been shown
        print(f"penstock: {reason}", file=sys.stderr)
    sys.exit(2)
