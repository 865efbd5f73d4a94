"""The node as its HTTP interface sees it, asked by a console of the test beside the node's own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from console.broker import Broker as Asking
from console.broker import Login
from ops.claim import Pointer
from penstock.control import passwords
from penstock.control.audit import Audit
from penstock.control.control import Refusal
from penstock.memory.gauges import Gauges
from penstock.node.node import Node
from router.model.topology import Topology
from tests.broker import Broker

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Return a node with two acceptors and a user that may log in from elsewhere."""
    with Broker(tmp_path_factory.mktemp("asked"), acceptors=2) as broker:
        broker.call("user_add", name="ann", password_hash=passwords.hashed("secret"), tags=["monitoring"])
        yield broker


@contextmanager
def opened(broker: Broker) -> Iterator[tuple[Node, Gauges]]:
    pointer = Pointer.load(broker.directory / "data")
    assert pointer
    node = Node.load(pointer.runtime)
    with Gauges.open(node.gauges, writable=False) as gauges:
        yield node, gauges


def asked(broker: Broker, work: Callable[[Asking], Awaitable[Any]]) -> Any:
    """Return the result of work with the node."""

    async def run() -> Any:
        with opened(broker) as (node, gauges):
            return await work(Asking(node, gauges, Topology(), Audit(Path(node.settings.data), "console", 9)))

    return asyncio.run(run())


def test_logins_are_those_of_amqp(node: Broker) -> None:
    async def logins(asking: Asking) -> list[Login | None]:
        given = [
            ("guest", "guest", "127.0.0.1"), ("guest", "wrong", "127.0.0.1"), ("guest", "guest", "10.1.2.3"),
            ("ann", "secret", "10.1.2.3"), ("nobody", "secret", "10.1.2.3"), ("", "", ""), ("ann", "\udcff", "::1"),
        ]  # fmt: skip
        return list(await asyncio.gather(*(asking.login(*each) for each in given)))

    guest, wrong, elsewhere, ann, *others = asked(node, logins)
    assert guest == Login("guest", ("administrator",), internal=True)
    assert ann == Login("ann", ("monitoring",), internal=True)
    assert {wrong, elsewhere, *others} == {None}
    audit = "".join(path.read_text() for path in (node.directory / "data").rglob("audit*") if path.is_file())
    assert '"command":"login"' not in audit and "secret" not in audit and "secret" not in node.log


def test_processes_are_asked_and_commanded(node: Broker) -> None:
    async def work(asking: Asking) -> Any:
        declared = await asking.command(
            "queue_declare", vhost="/", name="q", durable=True, auto_delete=False, arguments={}
        )
        connections = await asking.ask_acceptors("connections")
        return declared, connections, asking.serving(), await asking.held(), asking.reading(["/"]).queues

    with node.connect() as _, node.connect() as _:
        declared, connections, serving, held, queues = asked(node, work)
    assert declared["new"] and len(connections) == 2 and serving == [0, 1] and held == []
    assert [queue.name for queue in queues] == ["q"]


def test_refusals_and_processes_that_are_not_there_are_told_apart(node: Broker) -> None:
    async def refused(asking: Asking) -> None:
        with pytest.raises(Refusal, match="there is no queue"):
            await asking.command("queue_purge", vhost="/", name="none")
        with pytest.raises(Refusal):
            await asking.administer("nonsense")
        with pytest.raises(OSError):  # noqa: PT011  as the system says it
            await asking.ask("relay", 0, "held")

    asked(node, refused)
