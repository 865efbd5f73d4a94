"""The management API of RabbitMQ, as far as its clients use it: a module for each kind of object."""

from console.api import (
    bindings,
    channels,
    connections,
    consumers,
    definitions,
    exchanges,
    health,
    limits,
    nodes,
    overview,
    parameters,
    permissions,
    policies,
    queues,
    users,
    vhosts,
)

ROUTERS = (
    overview.router,
    nodes.router,
    queues.router,
    exchanges.router,
    bindings.router,
    connections.router,
    channels.router,
    consumers.router,
    vhosts.router,
    users.router,
    permissions.router,
    policies.router,
    parameters.router,
    limits.router,
    definitions.router,
    health.router,
)
