"""`penstock policy`: limits and features of queues and exchanges, by their names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from ops.administration.definitions import File, IntoVhost, import_file
from ops.administration.input import json_object
from ops.administration.node import AsJson, ask, show
from ops.naming import Data
from ops.selection import Sort, Where, selected_rows

app = typer.Typer(
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="the policy's name", show_default=False)]
Vhost = Annotated[str, typer.Option("--vhost", metavar="VHOST", help="its vhost")]
OfNode = Annotated[bool, typer.Option("--node", help="a policy of the node, for vhosts or the node itself")]
Operator = Annotated[
    bool, typer.Option("--operator", help="an operator policy: it bounds the values of other policies")
]

COLUMNS = ("vhost", "name", "operator", "pattern", "apply_to", "priority", "definition")
STOPPED_COLUMNS = ("connection", "channel", "user", "client", "peer", "reason")
APPLY_TO_DEFAULT = "all"


@app.command("set")
def set_(
    name: Name,
    pattern: Annotated[
        str, typer.Argument(metavar="PATTERN", help="regular expression for the names it governs, or wildcard:PRICES.>")
    ],
    definition: Annotated[str, typer.Argument(metavar="DEFINITION", help='JSON, such as {"max-length": 1000}')],
    apply_to: Annotated[
        str,
        typer.Option(
            "--apply-to",
            metavar="WHAT",
            help="all, queues, classic_queues, quorum_queues, streams, exchanges, routing_keys, users; with --node: "
            "vhosts or node",
        ),
    ] = APPLY_TO_DEFAULT,
    priority: Annotated[
        int, typer.Option("--priority", metavar="N", help="the matching policy of the highest priority governs")
    ] = 0,
    operator: Operator = False,
    vhost: Vhost = "/",
    node: OfNode = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="do not set it, but list the channels that it would stop now")
    ] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Add a policy, or change it. Existing queues and exchanges follow at once.

    Example: penstock policy set short '^eu' '{"max-length": 1000}' --apply-to queues
    """
    policy = {
        "vhost": "" if node else vhost,
        "operator": operator,
        "name": name,
        "pattern": pattern,
        "apply_to": apply_to,
        "priority": priority,
        "definition": json_object(definition, "the definition"),
    }
    if dry_run:
        _show_trial(data, policy, as_json)
        return
    new = ask(data, "policy_set", **policy)
    print(f"policy '{name}' {'added' if new else 'changed'}")


def _show_trial(data: Path | None, policy: dict[str, Any], as_json: bool) -> None:
    from ops.administration.dry_run import would_stop  # not at the top: it imports the router's model

    reached, stopped, ungranted = would_stop(data, policy)
    if as_json:
        answer = {"reached": reached, "stopped": stopped, "ungranted": ungranted}
        print(orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode())
        return
    print(f"policy '{policy['name']}' is not set; it would stop {len(stopped)} channels now")
    for line in (*reached, *ungranted):
        print(line)
    if stopped:
        show(stopped, STOPPED_COLUMNS, as_json=False)


@app.command()
def delete(name: Name, operator: Operator = False, vhost: Vhost = "/", node: OfNode = False, data: Data = None) -> None:
    """Delete a policy. Queues and exchanges that it governed follow at once.

    Example: penstock policy delete short --vhost eu
    """
    ask(data, "policy_delete", vhost="" if node else vhost, operator=operator, name=name)
    print(f"policy '{name}' deleted")


@app.command("list")
def list_(
    vhost: Annotated[str | None, typer.Option("--vhost", metavar="VHOST", help="only this vhost")] = None,
    where: Where = None,
    sort: Sort = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """List the policies by vhost, the highest priority first.

    Example: penstock policy list --vhost eu
    """
    policies = selected_rows(ask(data, "policy_list", vhost=vhost), where, sort)
    if not as_json:
        policies = [{**policy, "definition": orjson.dumps(policy["definition"]).decode()} for policy in policies]
    show(policies, COLUMNS, as_json, ("name", "definition"))


@app.command()
def explain(
    name: Annotated[str, typer.Argument(metavar="NAME", help="of a queue or an exchange")],
    exchange: Annotated[bool, typer.Option("--exchange", help="the name is that of an exchange")] = False,
    vhost: Vhost = "/",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Explain which policies govern a queue or an exchange, and the effect of each of their keys.

    Example: penstock policy explain orders --vhost eu
    """
    answer = ask(data, "policy_explain", vhost=vhost, kind="exchange" if exchange else "queue", name=name)
    if as_json:
        print(orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode())
        return
    print(f"policy: {answer['policy'] or 'none'}; operator policy: {answer['operator_policy'] or 'none'}")
    if answer["others"]:
        print(f"also matching, with lower priority: {', '.join(answer['others'])}")
    if answer["keys"]:
        show(answer["keys"], ("key", "value", "effect"), as_json=False)


@app.command("import")
def import_(file: File, vhost: IntoVhost = None, data: Data = None) -> None:
    """Import only the policies and operator policies of exported definitions: all, or none if one is refused.

    Existing ones are replaced.

    Example: penstock policy import definitions.json --vhost eu
    """
    import_file(data, file, vhost, ("policies",))
