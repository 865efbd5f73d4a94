"""A user who may read an exchange but not write to it cannot hold its publishers, whatever the user declares."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import orjson
import pytest

from ops.administration.processes import Processes
from tests.broker import Broker
from tests.hostile import FULL, KINDS, STYLES
from tests.outcomes import Confirms, wait_depth, wait_get
from tests.raw import Channel, Client
from tests.router.making import rabbit_hash
from tests.waiting import wait_for

pytestmark = pytest.mark.broker

MALLORY = "mallory"
MESSAGES = 200
numbers = count()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A node with an exchange that everybody may read, and a queue of a user who may write to it."""
    with Broker(tmp_path_factory.mktemp("grants"), acceptors=2, shards=2) as broker:
        broker.call("user_add", name=MALLORY, password_hash=rabbit_hash("m"), tags=[])
        permit(broker, "^mal")
        with Client.connect(broker.address) as client:
            channel = client.channel()
            channel.call("exchange.declare", exchange="news", type="fanout", durable=True)
            channel.call("queue.declare", queue="good", durable=True)
            channel.call("queue.bind", queue="good", exchange="news")
        yield broker


def permit(broker: Broker, write: str) -> None:
    broker.call("permission_set", user=MALLORY, vhost="/", configure="^mal", write=write, read=".*")


def publish(channel: Channel) -> None:
    for number in range(MESSAGES):
        channel.publish(b"%d" % number, "", "news", delivery_mode=2 if number % 2 else 1)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", KINDS)
def test_publishers_go_on(place: Broker, kind: str, style: str) -> None:
    """Plain publishers, those with confirms, and transactions all go on."""
    queue = f"mal-{next(numbers)}"
    with (
        Client.connect(place.address, user=MALLORY, password="m") as hostile,
        Client.connect(place.address) as publisher,
    ):
        bad = hostile.channel()
        bad.call("queue.declare", queue=queue, arguments=KINDS[kind], **STYLES[style])
        bad.call("queue.bind", queue=queue, exchange="news")
        plain, confirms, transaction = publisher.channel(), Confirms(publisher.channel()), publisher.channel()
        transaction.call("tx.select")
        publish(plain)
        for number in range(MESSAGES):
            confirms.publish(b"%d" % number, "", "news")
        confirms.wait()
        assert not confirms.nacked
        publish(transaction)
        transaction.call("tx.commit")
        reader = publisher.channel()
        wait_depth(reader, "good", 3 * MESSAGES)
        reader.call("queue.purge", queue="good")
        bad.call("queue.delete", queue=queue)


def test_what_is_granted_holds_and_outlives_a_restart(place: Broker) -> None:
    """The binding's maker, which is stored, decides: once granted the right to write, the queue holds producers."""
    with Client.connect(place.address, user=MALLORY, password="m") as hostile:
        bad = hostile.channel()
        bad.call("queue.declare", queue="mal", durable=True, arguments=FULL)
        bad.call("queue.bind", queue="mal", exchange="news")
    place.stop()
    place.start()
    with Client.connect(place.address) as client:
        confirms = Confirms(client.channel())
        for number in range(MESSAGES):
            confirms.publish(b"%d" % number, "", "news")
        confirms.wait()
        (reported,) = orjson.loads(place.penstock("flow", "explain", "mal", "--json").stdout)["bindings"]
        assert (reported["made_by"], reported["stops_producers"]) == (MALLORY, False)
        assert "'mallory' may not write to exchange 'news'" in place.penstock("flow", "explain", "mal").stdout
        permit(place, "^(mal|news)")
        confirms.publish(b"held", "", "news")
        held = wait_for(lambda: orjson.loads(place.penstock("flow", "--json").stdout), what="somebody to be held")
        assert "queue 'mal'" in str(held)
        permit(place, "^mal")
        confirms.wait()
        reader = client.channel()
        assert wait_get(reader, "mal").body == b"0"
        wait_depth(reader, "good", MESSAGES + 1)
        reader.call("queue.delete", queue="mal")


def test_a_dry_run_says_whom_an_unprivileged_queue_would_not_hold(place: Broker) -> None:
    queue = f"mal-{next(numbers)}"
    with (
        Client.connect(place.address, user=MALLORY, password="m") as hostile,
        Client.connect(place.address) as publisher,
    ):
        bad, by_binding, by_name = hostile.channel(), publisher.channel(), publisher.channel()
        bad.call("queue.declare", queue=queue, durable=True)
        bad.call("queue.bind", queue=queue, exchange="news")
        publish(by_binding)
        by_name.publish(b"x", queue)
        wait_depth(bad, queue, MESSAGES + 1)

        def trial(**definition: object) -> tuple[set[int], list[str]]:
            said = orjson.dumps(definition).decode()
            reported = place.penstock("policy", "set", "trial", f"^{queue}$", said, "--dry-run", "--json")
            assert reported.returncode == 0, reported.stderr
            found = orjson.loads(reported.stdout)
            return {each["channel"] for each in found["stopped"]}, found["ungranted"]

        why = f"'{MALLORY}' may not write to exchange 'news', and the policy does not grant it"
        ungranted = f"queue '{queue}' in vhost '/' would not hold publishes through exchange 'news': {why}"
        assert trial(**{"flow-stop-count": 5}) == ({by_name.number}, [ungranted])
        both = {by_name.number, by_binding.number}
        assert trial(**{"flow-stop-count": 5, "essential": True}) == (both, [])
        bad.call("queue.delete", queue=queue)
        by_name.call("queue.purge", queue="good")


def tried(place: Broker, apply_to: str, pattern: str, **definition: object) -> tuple[set[tuple[str, int]], list[str]]:
    """Return the (connection, channel) pairs that a policy would stop, and the texts about queues that would not hold
    every producer.
    """
    said = orjson.dumps({key.replace("_", "-"): value for key, value in definition.items()}).decode()
    reported = place.penstock("policy", "set", "trial", pattern, said, "--apply-to", apply_to, "--dry-run", "--json")
    assert reported.returncode == 0, reported.stderr
    found = orjson.loads(reported.stdout)
    return {(each["connection"], each["channel"]) for each in found["stopped"]}, found["ungranted"]


def test_a_dry_run_says_whom_the_rate_of_an_unprivileged_queue_would_not_slow(place: Broker) -> None:
    queue = f"mal-{next(numbers)}"
    over = threading.Event()

    def publish_on(exchange: str, key: str) -> None:
        with Client.connect(place.address) as client:
            channel = client.channel()
            while not over.wait(0.01):
                channel.publish(exchange.encode(), key, exchange)

    def going() -> dict[str, tuple[str, int]]:
        """Return the channels that publish to the queue, by exchange."""
        return {
            route["exchanges"][0]: (channel["connection"], channel["channel"])
            for channel in Processes(place.directory / "data").ask_acceptors("publishing")
            for route in channel["routes"]
            if id in route["queues"]
        }

    with (
        Client.connect(place.address, user=MALLORY, password="m") as hostile,
        ThreadPoolExecutor() as threads,
    ):
        bad = hostile.channel()
        bad.call("queue.declare", queue=queue, durable=True, arguments={"x-max-length": 10})
        bad.call("queue.bind", queue=queue, exchange="news")
        id = place.call("flow_explain", vhost="/", name=queue)["queue_id"]
        try:
            publishers = [threads.submit(publish_on, "news", ""), threads.submit(publish_on, "", queue)]
            wait_for(lambda: len(going()) == 2, what="both to publish")
            by_binding, by_name = going()["news"], going()[""]
            found = wait_for(lambda: (reported := tried(place, "queues", f"^{queue}$", max_rate=5))[0] and reported)
            why = f"'{MALLORY}' may not write to exchange 'news', and the policy does not grant it"
            ungranted = f"queue '{queue}' in vhost '/' would not hold publishes through exchange 'news': {why}"
            assert found == ({by_name}, [ungranted])
            found = wait_for(
                lambda: (reported := tried(place, "queues", f"^{queue}$", max_rate=5, essential=True))[0] and reported
            )
            assert found == ({by_name, by_binding}, [])
        finally:
            over.set()
        for publisher in publishers:
            publisher.result()
        bad.call("queue.delete", queue=queue)
        bad.call("queue.purge", queue="good")


def test_a_dry_run_of_a_user_s_limit_does_not_count_an_unprivileged_queue(place: Broker) -> None:
    """The limit itself does not count the queue either."""
    queue = f"mal-{next(numbers)}"
    with (
        Client.connect(place.address, user=MALLORY, password="m") as hostile,
        Client.connect(place.address) as client,
    ):
        bad, confirms = hostile.channel(), Confirms(client.channel())
        bad.call("queue.declare", queue=queue, durable=True)
        bad.call("queue.bind", queue=queue, exchange="news")
        for number in range(MESSAGES):
            confirms.publish(b"%d" % number, "", "news")
        confirms.wait()
        wait_depth(bad, queue, MESSAGES)
        most = MESSAGES + MESSAGES // 2
        assert tried(place, "users", "^guest$", sum_stop_count=most) == (set(), [])
        ((_, channel),), _ = tried(place, "users", "^guest$", sum_stop_count=MESSAGES // 2)
        assert channel == confirms.channel.number
        policy = {"operator": False, "name": "sum", "pattern": "^guest$", "apply_to": "users", "priority": 0}
        place.call("policy_set", vhost="/", **policy, definition={"sum-stop-count": most})
        confirms.publish(b"goes on", "", "news")
        confirms.wait()
        place.call("policy_delete", vhost="/", operator=False, name="sum")
        bad.call("queue.delete", queue=queue)
        bad.call("queue.purge", queue="good")
