"""Commands of the node's operator on queues, which an acceptor carries out as it does a client's methods. Users of the
HTTP interface have others (`acceptor.direct.commands`).

    command        arguments                                      result
    queue_declare  vhost, name, durable, auto_delete, arguments   {new, shard, messages, consumers}
    queue_purge    vhost, name                                    number of ready messages dropped
    queue_delete   vhost, name, if_unused, if_empty               number of ready messages it had
    login          name, password, host                           {accepted} | {accepted, user, internal, tags}
    event          facts (`penstock.flow.flow_events`)            null

A declared queue is nobody's: it counts towards no user's limits. Exclusive queues can be purged and deleted too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from acceptor.clients.asking import Answer, Asking, AtGates, Until, ask_router, ask_shard
from acceptor.direct import commands as direct
from acceptor.direct.steps import Steps
from acceptor.logins.backend import Decision, Identity
from penstock.amqp.errors import AMQPError
from penstock.bus import to_shard
from penstock.control.control import Refusal, refused
from penstock.control.questions import check_arguments
from penstock.node.logs import get_logger
from router.model.delaying import check_no_delay_queue
from router.model.records import Queue, described
from router.model.users import TAGS

if TYPE_CHECKING:
    from acceptor.core import AcceptorCore
    from acceptor.moving.requests import Requests
    from router.model.topology import Topology

log = get_logger()

Answered = Callable[[dict[str, Any]], None]


def queue_declare(
    topology: Topology, vhost: str, name: str, durable: bool, auto_delete: bool, arguments: dict[str, Any]
) -> Asking:
    """Declare a queue, unless an equal one exists."""
    new = topology.queue(vhost, name) is None
    found = yield from ask_router(
        "queue_declare", vhost=vhost, name=name, passive=False, durable=durable, exclusive=False,
        auto_delete=auto_delete, arguments=arguments, connection="", user=None,
    )  # fmt: skip
    stat = to_shard.Stat(found["queue_id"])
    messages, consumers = yield from ask_shard(found["shard"], stat, about=described("queue", name, vhost))
    return {"new": new, "shard": found["shard"], "messages": messages, "consumers": consumers}


def queue_purge(topology: Topology, vhost: str, name: str) -> Asking:
    """Drop the ready messages of a queue."""
    queue = _find(topology, vhost, name)
    return (yield from ask_shard(queue.shard, to_shard.Purge(queue.queue_id), about=str(queue)))


def queue_delete(topology: Topology, vhost: str, name: str, if_unused: bool, if_empty: bool) -> Asking:
    """Delete a queue with its messages; its consumers are cancelled."""
    queue = _find(topology, vhost, name)
    check_no_delay_queue(queue)
    return (yield from ask_shard(queue.shard, to_shard.Delete(queue.queue_id, if_unused, if_empty), about=str(queue)))


def login(core: AcceptorCore, name: str, password: str, host: str, answered: Answered) -> None:
    """Check a user and a password, sent from a host to another part of the node, as those of AMQP clients are."""

    def decided(decision: Decision) -> None:
        if isinstance(decision, Identity):
            rights = decision.rights
            tags = [tag for tag in TAGS if rights.has_tag(tag)]
            answered({"result": {"accepted": True, "user": rights.user, "internal": rights.is_internal, "tags": tags}})
        else:
            log.info("login refused", user=name, host=host, reason=decision)
            answered({"result": {"accepted": False}})

    core.authentication.logins.check(name, password, host, decided)


def event(core: AcceptorCore, facts: dict[str, Any], answered: Answered) -> None:
    """Publish an event that the console has found, once it reaches each queue."""
    if not core.has_all_shards():
        answered(refused(Refusal("busy", "a shard is missing")))
        return
    core.publish_event(facts)
    answered({"result": None})


COMMANDS: dict[str, tuple[Callable[..., Asking], dict[str, type]]] = {
    "queue_declare": (
        queue_declare,
        {"vhost": str, "name": str, "durable": bool, "auto_delete": bool, "arguments": dict},
    ),
    "queue_purge": (queue_purge, {"vhost": str, "name": str}),
    "queue_delete": (queue_delete, {"vhost": str, "name": str, "if_unused": bool, "if_empty": bool}),
}


OF_CONSOLE: dict[str, tuple[Callable[..., None], dict[str, type]]] = {
    "login": (login, {"name": str, "password": str, "host": str}),
    "event": (event, {"facts": dict}),
}
NOT_AUDITED = frozenset({*OF_CONSOLE, *direct.COMMANDS})
"""Those of users of the HTTP interface are recorded by the console, which knows more of them."""


def is_command(name: str) -> bool:
    """Whether there is a command of that name."""
    return name in COMMANDS or name in direct.COMMANDS or name in OF_CONSOLE


def carry_out(core: AcceptorCore, command: str, arguments: dict[str, Any], answered: Answered) -> None:
    """Carry out one of the commands, and call `answered` with its answer (`penstock.control.control`)."""
    try:
        check_arguments(command, _wanted(command), arguments)
    except Refusal as refusal:
        answered(refused(refusal))
        return
    if command in OF_CONSOLE:
        OF_CONSOLE[command][0](core, **arguments, answered=answered)
    elif command in direct.COMMANDS:
        _go_on(core.requests, direct.steps(core.direct, command, **arguments), answered)
    else:
        _go_on(core.requests, COMMANDS[command][0](core.topology, **arguments), answered)


def _wanted(command: str) -> Mapping[str, type]:
    if command in OF_CONSOLE:
        return OF_CONSOLE[command][1]
    if command in direct.COMMANDS:
        return {**direct.WHOSE, **direct.COMMANDS[command][1]}
    return COMMANDS[command][1]


def _go_on(requests: Requests, steps: Steps, answered: Answered, answer: Answer | None = None) -> None:
    try:
        request = next(steps) if answer is None else steps.send(answer)
    except StopIteration as end:
        answered({"result": end.value})
    except Refusal as refusal:
        answered(refused(refusal))
    except AMQPError as error:
        answered(refused(Refusal("not_found" if error.code == 404 else "invalid", error.text)))
    except Exception:
        log.exception("command failed")
        answered(refused(Refusal("failed", "the command failed, the log has more")))
    else:
        go_on = partial(_go_on, requests, steps, answered)
        if isinstance(request, Until):
            request.start(go_on)
        else:
            assert not isinstance(request, AtGates)  # only a commit waits there
            requests.ask(request, go_on)


def _find(topology: Topology, vhost: str, name: str) -> Queue:
    queue = topology.queue(vhost, name)
    if queue is None:
        raise Refusal("not_found", f"there is no {described('queue', name, vhost)}")
    return queue
