"""The past: accounts of held time, incidents, recent courses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from console.broker import Facts
from console.course import DAY_MINUTES, FINE_MINUTES, Sample
from console.flow.accounts import By, summed
from console.flow.incidents import incidents
from console.http.access import Called
from console.http.answers import answer
from console.http.errors import not_found
from console.http.segments import Segment

router = APIRouter(prefix="/api", tags=["flow"])

INCIDENTS_MOST = 1000
Last = Annotated[int, Query(ge=1, le=INCIDENTS_MOST)]
Minutes = Annotated[int, Query(ge=1, le=DAY_MINUTES)]


@router.get("/flow/ledger")
async def ledger(caller: Called, by: By = "queue") -> Response:
    """For how long producers have been held since the node started, longest first, by connection, user, vhost, exchange
    or queue.
    """
    if by in ("user", "connection"):
        caller.must_monitor()
    found = summed(await caller.broker.ask_acceptors("ledger"), by)
    return answer([each for each in found if caller.monitors or caller.sees(each["vhost"])])


@router.get("/flow/incidents")
async def past(caller: Called, last: Last = 50) -> Response:
    """Past stops and deadlocks, the last to end first: cause, held producers, actions."""
    found = await asyncio.to_thread(incidents, caller.broker.node.settings.data)
    seen = (each for each in found if caller.monitors or (each["vhost"] is not None and caller.sees(each["vhost"])))
    return answer([each for _, each in zip(range(last), seen, strict=False)])


@router.get("/history")
async def of_node(caller: Called, minutes: Minutes = FINE_MINUTES) -> Response:
    """The last minutes of the node, as far as they were sampled (`console.course`)."""
    caller.must_monitor()
    return answer(_course(caller.broker.sampler.node.last(minutes)))


@router.get("/queues/{vhost}/{name}/history")
async def of_queue(caller: Called, vhost: Segment, name: Segment, minutes: Minutes = FINE_MINUTES) -> Response:
    """The last minutes of a queue, since somebody first asked."""
    caller.must_see(vhost)
    queue = caller.broker.topology.queue(vhost, name)
    if queue is None:
        raise not_found()
    return answer(_course(caller.broker.sampler.course(queue.queue_id).last(minutes)))


def _course(samples: Sequence[Sample]) -> Facts:
    """Return times in milliseconds since 1970, depths, and rates since the sample before."""
    ahead = time.time() - time.monotonic()
    pairs = list(pairwise(samples))
    return {
        "at": [round((now.at + ahead) * 1000) for _, now in pairs],
        "ready": [now.ready for _, now in pairs],
        "unacked": [now.unacked for _, now in pairs],
        "held": [now.held for _, now in pairs],
        **{name: list(_rates(pairs, field)) for name, field in COUNTED.items()},
    }


COUNTED = {"publish": "published", "deliver": "delivered", "ack": "acked"}


def _rates(pairs: Iterable[tuple[Sample, Sample]], field: str) -> Iterable[float]:
    for before, now in pairs:
        grown = getattr(now.counters, field) - getattr(before.counters, field)
        yield round(max(grown, 0) / max(now.at - before.at, 1e-3), 1)
