"""Health checks: 200 if all is well, 503 with the reason if not."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from console.api.alarms import alarms
from console.api.serving import listeners
from console.broker import Broker, Facts
from console.http.access import Called
from console.http.answers import answer
from console.http.errors import HttpError
from console.http.segments import Segment
from penstock.memory.gauges import READY

router = APIRouter(prefix="/api", tags=["health"])

UNIT_SECONDS = {"days": 86_400, "weeks": 604_800, "months": 2_592_000, "years": 31_536_000}
PROTOCOLS = {
    "amqp": "amqp", "amqp091": "amqp", "amqp0.9.1": "amqp", "amqps": "amqp/ssl", "amqp/ssl": "amqp/ssl",
    "http": "http", "https": "https", "http/prometheus": "http/prometheus", "prometheus": "http/prometheus",
}  # fmt: skip
"""The protocols of listeners, by the names that checks may use."""


@router.get("/health/checks/alarms")
@router.get("/health/checks/local-alarms")
async def no_alarms(caller: Called) -> Response:
    """Whether no resource holds producers."""
    found = alarms(caller.broker)
    return _failed("There are alarms in effect", alarms=found) if found else _ok()


@router.get("/health/checks/node-is-quorum-critical")
@router.get("/health/checks/node-is-mirror-sync-critical")
async def not_critical(_caller: Called) -> Response:
    """Whether the node could stop without a loss of majorities: it is the only one."""
    return _ok(reason="single node cluster")


@router.get("/health/checks/virtual-hosts")
async def vhosts_run(caller: Called) -> Response:
    """Whether all vhosts are served: by shards that are ready."""
    found = _down(caller.broker)
    vhosts = caller.broker.topology.vhosts()
    return _failed("Some virtual hosts are down", **{"virtual-hosts": vhosts, "shards": found}) if found else _ok()


@router.get("/health/checks/port-listener/{port}")
async def port_listens(caller: Called, port: Segment) -> Response:
    """Whether something is served at a port."""
    if not port.isdecimal() or len(port) > 5:
        raise HttpError(400, f"'{port}' is no port")
    ports = sorted({each["port"] for each in listeners(caller.broker.node)})
    if int(port) in ports:
        return _ok(port=int(port))
    return _failed("No active listener", missing=int(port), ports=ports)


@router.get("/health/checks/protocol-listener/{protocol:path}")
async def protocol_listens(caller: Called, protocol: Segment) -> Response:
    """Whether a protocol is served."""
    served = sorted({each["protocol"] for each in listeners(caller.broker.node)})
    known = PROTOCOLS.get(protocol.lower())
    if known in served:
        return _ok(protocol=known)
    return _failed("No active listener", missing=protocol, protocols=served)


@router.get("/health/checks/certificate-expiration/{within}/{unit}")
async def certificates_last(caller: Called, within: Segment, unit: Segment) -> Response:
    """Whether no certificate of a listener, or of HTTP, expires within a time."""
    if not within.isdecimal() or len(within) > 6 or unit not in UNIT_SECONDS:
        raise HttpError(400, f"the time is a number of {', '.join(UNIT_SECONDS)}")
    limit = int(within) * UNIT_SECONDS[unit]
    expired = [
        {"name": each["listener"], "file": each["certificate"], "expires": each["expires"]}
        for each in await caller.broker.certificates()
        if each["seconds_left"] <= limit
    ]
    return _failed("Certificates expiring", expired=expired) if expired else _ok()


@router.get("/healthchecks/node")
@router.get("/healthchecks/node/{_node}")
async def node_is_healthy(caller: Called, _node: str = "") -> Response:
    """Whether the node serves and has no alarms. As in RabbitMQ, the status is 200 in any case."""
    caller.must_monitor()
    found = alarms(caller.broker)
    if reasons := [each["reason"] for each in found] + _down(caller.broker):
        return answer({"status": "failed", "reason": ", ".join(reasons)})
    return _ok()


@router.get("/aliveness-test/{vhost}")
async def alive(caller: Called, vhost: Segment) -> Response:
    """Whether a vhost is served. No message is published: the processes are asked."""
    caller.must_open(vhost)
    broker = caller.broker
    found = _down(broker)
    await broker.ask_acceptors("headcount")
    return _failed(", ".join(found)) if found else _ok()


def _down(broker: Broker) -> list[str]:
    """Return the processes that do not serve."""
    processes = (process for process in broker.reading().processes if process.role in ("router", "shard", "acceptor"))
    return [f"{process.role} {process.index} is down" for process in processes if process.state != READY]


def _ok(**facts: object) -> Response:
    return answer({"status": "ok", **facts})


def _failed(reason: str, **facts: object) -> Response:
    found: Facts = {"status": "failed", "reason": reason, **facts}
    return answer(found, 503)
