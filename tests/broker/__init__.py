"""A running broker for tests, and the tests of what it does on the wire."""

from tests.broker.process import Broker

__all__ = ["Broker"]
