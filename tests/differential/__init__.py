"""The same methods to penstock and to RabbitMQ: the answers agree."""
