"""penstock's own part of the API: held producers and their causes, stops by hand, limits, incidents, shards, traces."""

from console.api.flow import events, held, history, limits, moves, rebalance, redriving, report, shards, stops, traces

ROUTERS = (
    held.router,
    stops.router,
    limits.router,
    history.router,
    shards.router,
    moves.router,
    redriving.router,
    rebalance.router,
    report.router,
    traces.router,
    events.router,
)
