"""The management API of RabbitMQ, as far as its clients use it: a module for each kind of object."""

from console.api import overview, queues

ROUTERS = (overview.router, queues.router)
