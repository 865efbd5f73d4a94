"""penstock's own part of the API: who is held, and by what; stops; shards."""

from console.flow import held

ROUTERS = (held.router,)
