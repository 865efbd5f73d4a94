"""Limits that are nearly used up, as the router shows them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.memory.shared_counts import SharedCounts
from penstock.memory.shared_rows import Use
from penstock.settings.limits import LimitSettings
from router.authority.near_limits import NearLimits
from router.model.resource_limits import LIMITS, Holder
from tests.router.making import Asked

DEFAULTS = LimitSettings(user_queues=3, vhost_bindings=10)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("declare"), st.integers(0, 7), st.sampled_from(["ann", "bob"])),
        st.tuples(st.just("delete"), st.integers(0, 7), st.none()),
        st.tuples(st.just("limit"), st.integers(-1, 6), st.sampled_from(["ann", "/"])),
        st.tuples(st.just("clear"), st.just(0), st.sampled_from(["ann", "/"])),
        st.tuples(st.just("update"), st.just(0), st.none()),
    ),
    max_size=40,
)


def near(asked: Asked) -> tuple[NearLimits, SharedCounts]:
    shared = SharedCounts.of_process()
    return NearLimits(shared, asked.authority.ledger, DEFAULTS), shared


def test_a_limit_is_near_as_long_as_most_of_it_is_used() -> None:
    asked = Asked()
    limits, shared = near(asked)
    for name in ("a", "b"):
        asked.done("queue_declare", name=name, user="ann")
    limits.update()
    assert not list(shared.near())
    asked.done("queue_declare", name="c", user="ann")
    limits.update()
    assert list(shared.near()) == [Use("max-queues", "user", "ann", 3, 3)]
    asked.done("queue_delete", queue_id=asked.topology.queue("/", "c").queue_id)
    asked.command("limits_set", scope="vhost", name="/", limits={"max-queues": 2})
    limits.update()
    assert list(shared.near()) == [Use("max-queues", "vhost", "/", 2, 2)]
    asked.command("limits_clear", scope="vhost", name="/", limit=None)
    limits.update()
    assert not list(shared.near())


def test_a_new_incarnation_shows_what_the_last_one_did() -> None:
    asked = Asked()
    for name in ("a", "b", "c"):
        asked.done("queue_declare", name=name, user="ann", durable=True)
    asked.start_again(1)
    limits, shared = near(asked)
    limits.update()
    assert list(shared.near()) == [Use("max-queues", "user", "ann", 3, 3)]


@given(STEPS)
def test_it_shows_what_is_near(steps: list[tuple[str, int, str | None]]) -> None:
    asked = Asked()
    asked.command("user_add", name="ann", password_hash="", tags=[])
    limits, shared = near(asked)
    for step, number, name in [*steps, ("update", 0, None)]:
        holder = {"scope": "vhost" if name == "/" else "user", "name": name}
        if step == "declare":
            asked.ask("queue_declare", name=str(number), user=name)
        elif step == "delete":
            known = asked.topology.queue("/", str(number))
            asked.ask("queue_delete", queue_id=known.queue_id if known else 999)
        elif step == "limit":
            asked.command("limits_set", **holder, limits={"max-queues": number})
        elif step == "clear":
            asked.command("limits_clear", **holder, limit=None)
        else:
            limits.update()
            assert set(shared.near()) == expected(asked)


def expected(asked: Asked) -> set[Use]:
    ledger = asked.authority.ledger
    holders = [Holder("vhost", "/"), Holder("user", "ann"), Holder("user", "bob")]
    found = set()
    for holder in holders:
        for counted in LIMITS[holder.scope]:
            limit = asked.topology.limits.limit(holder, counted, DEFAULTS)
            used = ledger.usage.numbers[holder, counted]
            if limit is not None and used and used >= 0.9 * limit:
                found.add(Use(counted, *holder, used, limit))
    return found
