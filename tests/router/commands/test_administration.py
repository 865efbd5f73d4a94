"""The checks of names, vhosts and users that several commands share."""

from __future__ import annotations

import pytest

from penstock.control.control import Refusal
from router.commands.administration import NAME_BYTES_MAX, check_name, check_user, check_vhost
from tests.router.making import Asked


@pytest.mark.parametrize("name", ["a", "/", " ", "ä" * (NAME_BYTES_MAX // 2), "\udcff", "x" * NAME_BYTES_MAX])
def test_names_that_clients_can_send_are_accepted(name: str) -> None:
    check_name("vhost", name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the vhost name cannot be empty"),
        ("x" * 256, "vhost name of 256 bytes is longer than 255"),
        ("ä" * 128, "vhost name of 256 bytes is longer than 255"),
        ("a\nb", "vhost name 'a\\nb' has a control character in it"),
        ("a\r", "vhost name 'a\\r' has a control character in it"),
        ("\0", "vhost name '\\x00' has a control character in it"),
    ],
)
def test_other_names_are_refused(name: str, reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        check_name("vhost", name)
    assert (refused.value.kind, str(refused.value)) == ("invalid", reason)


def test_vhosts_and_users_that_do_not_exist_are_not_found() -> None:
    ledger = Asked().authority.ledger
    check_vhost(ledger, "/")
    check_user(ledger, "guest")
    with pytest.raises(Refusal, match=r"^there is no vhost 'guest'$") as refused:
        check_vhost(ledger, "guest")
    assert refused.value.kind == "not_found"
    with pytest.raises(Refusal, match=r"^there is no user '/'$") as refused:
        check_user(ledger, "/")
    assert refused.value.kind == "not_found"


def test_each_administration_has_a_lease_of_its_own() -> None:
    asked = Asked()
    one, other = (asked.administration() for _ in range(2))
    assert one.rebalancing is not other.rebalancing and one.moves is other.moves
