"""`penstock flow explain`: the limits of a queue, and their sources."""

from __future__ import annotations

from array import array
from typing import Annotated, Any

import orjson
import typer

from console.flow.overshoot import overshoot
from ops.administration.node import AsJson, ask, gauges_of, show
from ops.naming import Data
from penstock.limits.watermarks import Marks
from penstock.memory.gauges import Gauges

Vhost = Annotated[str, typer.Option("--vhost", metavar="VHOST", help="its vhost")]

COLUMNS = ("setting", "value", "source")
BINDING_COLUMNS = ("exchange", "leads_to", "made_by", "count", "stops_producers", "why")
SHARED_COLUMNS = ("limit", "how", "depth", "stop_at", "resume_at", "over_of_bound", "policy")


def explain(
    name: Annotated[str, typer.Argument(metavar="QUEUE", help="the queue's name", show_default=False)],
    vhost: Vhost = "/",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Explain what limits a queue and stops its producers: the value of each setting, and its source.

    Example: penstock flow explain orders --vhost eu
    """
    answer = ask(data, "flow_explain", vhost=vhost, name=name)
    with gauges_of(data) as gauges:
        queue = gauges.queue_read(answer["slot"])
        facts = {
            "queue": name,
            "vhost": vhost,
            "messages": gauges.depth_count(answer["slot"]),
            "bytes": gauges.depth_bytes(answer["slot"]),
            "body_bytes": 0 if queue is None else queue.ready_bytes + queue.unacked_bytes,
            "saturated": queue is not None and queue.saturated,
            "lent_count": 0 if queue is None else queue.lent_count,
            "lent_bytes": 0 if queue is None else queue.lent_bytes,
            **({} if queue is None else overshoot(queue, gauges.acceptors)),
            "settings": answer["settings"],
            "bindings": answer["bindings"],
            "shared": [_measured(limit, gauges) for limit in answer["shared"]],
        }
    if as_json:
        print(orjson.dumps(facts, option=orjson.OPT_INDENT_2).decode())
        return
    state = "holds its producers" if facts["saturated"] else "open"
    sizes = f"{facts['bytes']} bytes ({facts['body_bytes']} of bodies)"
    if facts["lent_count"] or facts["lent_bytes"]:
        lent = f"{facts['lent_count']} messages, {facts['lent_bytes']} bytes"
        state += f", lent {lent} beyond its stop marks because of a deadlock"
    if facts.get("over_count_bound"):
        above = max(facts["over_count"], facts["beyond_count"])
        state += f", at most {above} of {facts['over_count_bound']} messages above its stop mark"
    line = f"queue '{name}' in vhost '{vhost}': {facts['messages']} messages, {sizes}, {state}"
    print(line)
    settings = [{**each, "value": "-" if each["value"] is None else each["value"]} for each in facts["settings"]]
    show(settings, COLUMNS, as_json=False)
    if facts["bindings"]:
        show([_binding_row(binding) for binding in facts["bindings"]], BINDING_COLUMNS, as_json=False)
    if facts["shared"]:
        show([_limit_row(limit) for limit in facts["shared"]], SHARED_COLUMNS, as_json=False)


def _measured(limit: dict[str, Any], gauges: Gauges) -> dict[str, Any]:
    """Return a limit over several queues with their present depth, its overshoot of the stop marks, and the bound of
    that (in bytes, one message of each acceptor may come on top).
    """
    slots = limit.pop("slots")
    from router.model.shared_limits import counted  # not at the top: it imports the settings

    count, nbytes = counted(limit["how"], gauges.depths(array("q", slots)))
    marks = Marks(limit["stop_count"], limit["resume_count"], limit["stop_bytes"], limit["resume_bytes"])
    bound, bound_bytes = marks.shared_bound()
    return {
        **limit,
        "queues": len(slots),
        "messages": count,
        "bytes": nbytes,
        "over_count": max(count - marks.stop_count, 0) if marks.stop_count else 0,
        "over_count_bound": bound,
        "over_bytes": max(nbytes - marks.stop_bytes, 0) if marks.stop_bytes else 0,
        "over_bytes_bound": bound_bytes,
    }


def _binding_row(binding: dict[str, Any]) -> dict[str, Any]:
    """Return a binding that leads to the queue, in words."""
    power = "yes" if binding["stops_producers"] else "no"
    return {**binding, "made_by": binding["made_by"] or "not known", "stops_producers": power}


def _limit_row(limit: dict[str, Any]) -> dict[str, str]:
    pairs = [("messages", "count", "messages"), ("bytes", "bytes", "bytes")]
    given = [
        (limit[depth], limit[f"stop_{mark}"], limit[f"resume_{mark}"], unit, mark)
        for depth, mark, unit in pairs
        if limit[f"stop_{mark}"]
    ]
    return {
        "limit": limit["limit"],
        "how": f"{limit['how']} of {limit['queues']}",
        "depth": ", ".join(f"{depth} {unit}" for depth, _, _, unit, _ in given),
        "stop_at": ", ".join(str(stop) for _, stop, *_ in given),
        "resume_at": ", ".join(str(resume) for _, _, resume, *_ in given),
        "over_of_bound": ", ".join(f"{limit[f'over_{mark}']} of {limit[f'over_{mark}_bound']}" for *_, mark in given),
        "policy": limit["policy"],
    }
