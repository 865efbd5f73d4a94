"""Fixtures for tests of clients: producers of `penstock.client`, of both kinds, and an unused port."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.client import Producer
from tests.clients.producing import PRODUCERS, InThread
from tests.ports import closed_port

Make = Callable[..., Producer]


@pytest.fixture(params=sorted(PRODUCERS))
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """A function that makes a producer of the chosen kind for a URL; all are closed at the end."""
    made: list[Producer | InThread] = []

    def make(url: str, **options: Any) -> Producer:
        producer = PRODUCERS[request.param](url, **options)
        made.append(producer)
        return producer  # type: ignore[return-value]

    yield make
    for each in made:
        each.close(0)


@pytest.fixture
def unused_port() -> Iterator[int]:
    """A port on which no process listens."""
    with closed_port() as port:
        yield port
