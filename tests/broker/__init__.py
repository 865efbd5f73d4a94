"""A running broker for tests, and the tests of its behaviour on the wire."""

from tests.broker.process import Broker

__all__ = ["Broker"]
