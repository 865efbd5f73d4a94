"""The two fixtures of aiormq's suite that its source distribution lacks: where the broker is."""

import os
from types import SimpleNamespace

import pytest
from yarl import URL


@pytest.fixture(scope="session")
def amqp_direct_url():
    """The URL of the broker."""
    return URL(os.environ["AMQP_URL"])


@pytest.fixture(scope="session")
def rabbitmq_container(amqp_direct_url):
    # No process listens on port 1: no node serves TLS.
    return SimpleNamespace(host=amqp_direct_url.host, ports={"5672/tcp": amqp_direct_url.port, "5671/tcp": 1})
