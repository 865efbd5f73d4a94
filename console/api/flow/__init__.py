"""penstock's own part of the API: who is held and by what, stops by hand, limits and trials, what happened, shards."""

from console.api.flow import events, held, history, limits, shards, stops

ROUTERS = (held.router, stops.router, limits.router, history.router, shards.router, events.router)
