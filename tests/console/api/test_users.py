"""Users, their passwords and tags."""

from __future__ import annotations

import pytest

from tests.management import GUEST, PASSWORD, Api

pytestmark = pytest.mark.broker

HASH_OF_RABBITMQ = "zWEQWyLILM6X2MwBSue8wXACzFbCvrgqhpFEX3N7lDucYn7G"
"""Of "guest", by RabbitMQ 3.10."""


def test_a_user_logs_in_with_the_password_that_it_was_given_last(api: Api) -> None:
    assert api.status("PUT", "users/ann", {"password": "other", "tags": "management"}) == 201
    assert api.status("GET", "whoami", user="ann") == 401
    assert api.status("PUT", "users/ann", {"password": PASSWORD, "tags": ["management", "policymaker"]}) == 204
    assert sorted(api.get("whoami", "ann")["tags"]) == ["management", "policymaker"]
    assert "ann" in [each["name"] for each in api.get("users/without-permissions")]
    assert api.status("DELETE", "users/ann") == 204
    assert [api.status("GET", "whoami", user="ann"), api.status("GET", "users/ann")] == [401, 404]


def test_hashes_of_rabbitmq_are_taken_and_given_back(api: Api) -> None:
    algorithm = "rabbit_password_hashing_sha256"
    body = {"password_hash": HASH_OF_RABBITMQ, "hashing_algorithm": algorithm, "tags": "management"}
    assert api.status("PUT", "users/bob", body) == 201
    found = api.get("users/bob")
    assert (found["password_hash"], found["hashing_algorithm"]) == (HASH_OF_RABBITMQ, algorithm)
    ours = api.get("users/guest")
    again = {name: ours[name] for name in ("password_hash", "hashing_algorithm", "tags")}
    assert api.status("PUT", "users/guest", again) == 204 and api.get("whoami")["name"] == GUEST
    assert api.status("POST", "users/bulk-delete", {"users": ["bob", "nobody"]}) == 204


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"password": "x"}, 400),
        ({"password": "", "tags": ""}, 400),
        ({"password": "x", "tags": "king"}, 400),
        ({"password_hash": "!", "tags": ""}, 400),
        ({"password_hash": HASH_OF_RABBITMQ, "hashing_algorithm": "md5", "tags": ""}, 400),
        ({"password": "x" * 70_000, "tags": ""}, 400),
        ({"password": "\ud800", "tags": ""}, 400),
        ({"password": "x", "tags": "\ud800"}, 400),
        ([], 400),
    ],
)
def test_a_user_that_cannot_be_is_refused_with_a_reason(api: Api, body: object, status: int) -> None:
    answer = api.call("PUT", "users/wrong", body)
    assert answer.status_code == status and answer.json()["reason"]
    assert api.status("GET", "users/wrong") == 404


def test_a_user_without_a_password_never_logs_in_with_one(api: Api) -> None:
    assert api.status("PUT", "users/none", {"tags": "management"}) == 201
    assert api.status("GET", "whoami", user="none") == 401
    assert api.status("DELETE", "users/none") == 204
