"""Exchanges, with all their arguments."""

from __future__ import annotations

import pytest

from tests.console.api.conftest import Connect
from tests.management import Api

pytestmark = pytest.mark.broker


def test_exchanges_are_listed_with_arguments_that_only_the_router_has(api: Api, vhost: str, connect: Connect) -> None:
    channel = connect().channel()
    arguments = {"alternate-exchange": "amq.fanout", "x-own": {"deep": [1, "two", None, True]}}
    channel.exchange_declare("mine", "topic", durable=True, auto_delete=True, arguments=arguments)
    found = api.get(f"exchanges/{vhost}/mine")
    assert found["arguments"] == arguments
    assert (found["type"], found["durable"], found["auto_delete"], found["internal"]) == ("topic", True, True, False)
    listed = {each["name"]: each for each in api.get(f"exchanges/{vhost}")}
    assert listed["mine"]["arguments"] == arguments and listed[""]["type"] == "direct"
    assert list(listed) == sorted(listed)
    assert api.get(f"exchanges/{vhost}/amq.default")["name"] == ""
    assert api.status("GET", f"exchanges/{vhost}/nothing") == 404
    assert api.status("GET", f"exchanges/{vhost}/mine/bindings/sideways") == 400
