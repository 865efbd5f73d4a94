"""The same methods sent to penstock and to RabbitMQ: the answers agree."""
