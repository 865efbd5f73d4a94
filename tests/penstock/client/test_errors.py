"""The errors of a producer, as programs catch them."""

from __future__ import annotations

import inspect

import pytest

from penstock import client
from penstock.client import errors
from penstock.client.errors import (
    ConnectionLost,
    Full,
    NotConnected,
    ProducerError,
    Refused,
    Rejected,
    Stopped,
    TimedOut,
    Unroutable,
    WindowFull,
)

CLASSES = [each for _, each in inspect.getmembers(errors, inspect.isclass) if each.__module__ == errors.__name__]


@pytest.mark.parametrize("error", CLASSES)
def test_each_is_a_producer_error_that_the_package_exports(error: type[Exception]) -> None:
    assert issubclass(error, ProducerError)
    assert getattr(client, error.__name__) is error and error.__name__ in client.__all__


@pytest.mark.parametrize(
    ("error", "caught"),
    [
        (Stopped, Full), (WindowFull, Full), (NotConnected, Full),
        (NotConnected, ConnectionError), (ConnectionLost, ConnectionError), (TimedOut, TimeoutError),
    ],
)  # fmt: skip
def test_more_general_classes_catch_them(error: type[Exception], caught: type[Exception]) -> None:
    with pytest.raises(caught, match="why"):
        raise error("why")


def test_they_keep_what_the_broker_said() -> None:
    unroutable = Unroutable(312, "NO_ROUTE", "x", "a.b", {"depth": 5})
    assert str(unroutable) == "312 NO_ROUTE: exchange 'x', routing key 'a.b'"
    assert (unroutable.code, unroutable.text, unroutable.headers) == (312, "NO_ROUTE", {"depth": 5})
    refused = Refused(404, "NOT_FOUND")
    assert (str(refused), refused.code, refused.text) == ("404 NOT_FOUND", 404, "NOT_FOUND")
    assert Rejected("full").headers == {} and Rejected("full", {"queue": "q"}).headers == {"queue": "q"}
