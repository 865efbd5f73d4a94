"""`penstock message` on a running node: moves and redrives, whole, in part, stopped, held and cut off."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.broker import Broker
from tests.broker.process import ROOT
from tests.ops.relay.queues import channel_to, declare, drained, fill, numbers, ready, url_of
from tests.waiting import PATIENCE, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("relay_command")]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("relay")) as broker:
        yield broker


@pytest.fixture
def channel(broker: Broker) -> Iterator[Any]:
    with channel_to(broker) as channel:
        yield channel
        for each in ("a", "b", "dead"):
            channel.queue_delete(each)


def started(broker: Broker, *words: str) -> subprocess.Popen[str]:
    """Start a command of `penstock message`; the caller waits for its end."""
    return subprocess.Popen(
        [sys.executable, "-m", "ops", "message", *words, "--data", str(broker.directory / "data")],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")},
    )  # fmt: skip


def test_a_move_keeps_order_and_all_properties(broker: Broker, channel: Any) -> None:
    declare(channel, "a", "b")
    properties = pika.BasicProperties(
        content_type="text/plain", delivery_mode=2, priority=3, message_id="m", timestamp=7, app_id="app",
        headers={"bytes": b"\xff\x00", "big": 2**40, "small": 1, "price": Decimal("1.5"), "list": [1, {"x": None}]},
    )  # fmt: skip
    channel.basic_publish("", "a", b"\x00\xffbody", properties)
    fill(channel, "a", range(1, 1000))
    done = broker.penstock("message", "move", "a", "b")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1000 messages moved to queue 'b'\n", "")
    assert ready(channel, "a") == 0
    first, *others = drained(channel, "b")
    assert first[1:] == (properties, b"\x00\xffbody")
    assert [int(body) for _, _, body in others] == [*range(1, 1000)]
    assert all(each[1].delivery_mode == 2 for each in others)


def test_a_move_may_be_of_a_few(broker: Broker, channel: Any) -> None:
    declare(channel, "a", "b")
    fill(channel, "a", range(10))
    done = broker.penstock("message", "move", "a", "b", "--count", "3", "--url", url_of(broker))
    assert (done.returncode, done.stdout) == (0, "3 messages moved to queue 'b'\n")
    assert (numbers(channel, "a"), numbers(channel, "b")) == ([*range(3, 10)], [0, 1, 2])


def test_messages_without_the_header_or_the_age_stay_in_their_order(broker: Broker, channel: Any) -> None:
    declare(channel, "a", "b")
    now = int(time.time())
    for number in range(12):
        properties = pika.BasicProperties(headers={"kind": number % 2}, timestamp=now - 3600 * (number % 3))
        channel.basic_publish("", "a", b"%d" % number, properties)
    done = broker.penstock("message", "move", "a", "b", "--header", "kind=1", "--older-than", "1800")
    assert (done.returncode, done.stdout) == (0, "4 messages moved to queue 'b'\n")
    assert numbers(channel, "b") == [1, 5, 7, 11]
    stayed = drained(channel, "a")
    assert [int(body) for _, _, body in stayed] == [0, 2, 3, 4, 6, 8, 9, 10]
    assert all(method.redelivered for method, _, _ in stayed)


def test_a_search_ends_at_its_bound_and_says_so(broker: Broker, channel: Any) -> None:
    declare(channel, "a", "b")
    fill(channel, "a", range(20))
    done = broker.penstock("message", "move", "a", "b", "--header", "kind=1", "--prefetch", "5")
    assert done.returncode == 1
    assert done.stdout == (
        "0 messages moved to queue 'b'; the search ends after 5 messages that stay: --prefetch takes more\n"
    )
    assert numbers(channel, "a") == [*range(20)]


def test_a_rate_is_kept(broker: Broker, channel: Any) -> None:
    declare(channel, "a", "b")
    fill(channel, "a", range(50))
    begun = time.monotonic()
    assert broker.penstock("message", "move", "a", "b", "--rate", "20").returncode == 0
    assert time.monotonic() - begun > 47 / 20
    assert numbers(channel, "b") == [*range(50)]


def test_a_full_target_holds_a_move_and_ctrl_c_stops_it(broker: Broker, channel: Any) -> None:
    """Nothing is lost, and what arrives twice is no more than was unconfirmed."""
    declare(channel, "a", "b", b={"x-max-length": 20, "x-overflow": "flow"})
    fill(channel, "a", range(200))
    move = started(broker, "move", "a", "b", "--prefetch", "50")
    wait_for(broker.held, what="a held relay")
    move.send_signal(signal.SIGINT)
    out, errors = move.communicate(timeout=PATIENCE)
    assert (move.returncode, errors) == (130, "") and "; stopped" in out, out
    wait_for(lambda: not broker.held(), what="the end of the hold")
    moved = int(out.split()[0])
    arrived, left = numbers(channel, "b"), numbers(channel, "a")
    assert left == [*range(moved, 200)] and arrived[:moved] == [*range(moved)]
    assert len(arrived) <= moved + 50


def test_a_stopped_move_goes_on(broker: Broker, channel: Any) -> None:
    declare(channel, "a", "b")
    fill(channel, "a", range(100))
    move = started(broker, "move", "a", "b", "--rate", "20")
    wait_for(lambda: ready(channel, "b") >= 5, what="the first messages")
    move.send_signal(signal.SIGINT)
    out, _ = move.communicate(timeout=PATIENCE)
    assert move.returncode == 130 and 0 < int(out.split()[0]) < 100
    assert broker.penstock("message", "move", "a", "b").returncode == 0
    assert numbers(channel, "b") == [*range(100)]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("a", "a"), "source and target are the same queue"),
        (("none", "b"), "404 NOT_FOUND - no queue 'none' in vhost '/'"),
        (("a", "none"), "404 NOT_FOUND - no queue 'none' in vhost '/'"),
        (("a", "b", "--header", "kind"), "a header is given as NAME=VALUE, not 'kind'"),
        (("a", "b", "--url", "http://x"), "an AMQP URL begins with amqp:// or amqps://"),
        (("a", "b", "--url", "amqp://127.0.0.1:1"), "Connection refused"),
    ],
)
def test_a_move_that_cannot_be_is_refused_in_one_line(
    broker: Broker, channel: Any, words: tuple[str, ...], reason: str
) -> None:
    declare(channel, "a", "b")
    fill(channel, "a", range(3))
    done = broker.penstock("message", "move", *words)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert reason in done.stderr
    assert numbers(channel, "a") == [0, 1, 2]


def kill_letters(channel: Any, number: int) -> None:
    """Have messages published to a topic exchange die in queue a, and go to queue dead."""
    channel.exchange_declare("events", "topic", durable=True)
    declare(channel, "b", "dead", "a", a={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    channel.queue_bind("a", "events", "order.#")
    for each in range(number):
        channel.basic_publish("events", f"order.{each}", b"%d" % each)
    for method, _, _ in [channel.basic_get("a") for _ in range(number)]:
        channel.basic_reject(method.delivery_tag, requeue=False)
    wait_for(lambda: ready(channel, "dead") == number, what="dead letters")


def test_dead_letters_go_back_to_their_exchange(broker: Broker, channel: Any) -> None:
    kill_letters(channel, 5)
    fill(channel, "dead", range(9, 10))
    done = broker.penstock("message", "redrive", "dead")
    assert (done.returncode, done.stdout) == (0, "5 messages redriven\n")
    back = drained(channel, "a")
    assert [(method.exchange, method.routing_key, int(body)) for method, _, body in back] == [
        ("events", f"order.{number}", number) for number in range(5)
    ]
    assert back[0][1].headers["x-first-death-queue"] == "a" and back[0][1].headers["x-death"][0]["count"] == 1
    assert numbers(channel, "dead") == [9]


def test_dead_letters_of_a_past_exchange_or_binding_go_back_to_their_queue(broker: Broker, channel: Any) -> None:
    kill_letters(channel, 3)
    channel.queue_unbind("a", "events", "order.#")
    assert broker.penstock("message", "redrive", "dead", "--count", "1").stdout == "1 message redriven\n"
    channel.exchange_delete("events")
    assert broker.penstock("message", "redrive", "dead").stdout == "2 messages redriven\n"
    assert numbers(channel, "a") == [0, 1, 2]


def test_dead_letters_go_straight_to_their_queue(broker: Broker, channel: Any) -> None:
    kill_letters(channel, 2)
    channel.queue_bind("b", "events", "order.#")
    assert broker.penstock("message", "redrive", "dead", "--to-queue").stdout == "2 messages redriven\n"
    assert (numbers(channel, "a"), numbers(channel, "b")) == ([0, 1], [])


def test_dead_letters_without_a_queue_stay(broker: Broker, channel: Any) -> None:
    kill_letters(channel, 2)
    channel.queue_delete("a")
    done = broker.penstock("message", "redrive", "dead")
    assert (done.returncode, done.stdout) == (
        1, "0 messages redriven; 2 stay, as the target has no route for them\n",
    )  # fmt: skip
    assert numbers(channel, "dead") == [0, 1]


def test_a_copy_leaves_its_source_alone(broker: Broker, channel: Any) -> None:
    declare(channel, "a", "b")
    for number in range(1200):
        channel.basic_publish("", "a", b"%d" % number, pika.BasicProperties(headers={"kind": number % 2}))
    done = broker.penstock("message", "copy", "a", "b", "--header", "kind=1", "--skip", "100")
    assert (done.returncode, done.stdout) == (0, "550 messages copied to queue 'b'\n")
    assert numbers(channel, "b") == [*range(101, 1200, 2)]
    stayed = drained(channel, "a")
    assert [int(body) for _, _, body in stayed] == [*range(1200)]
    assert not any(method.redelivered for method, _, _ in stayed)


def test_an_export_is_imported_as_it_was(broker: Broker, channel: Any, tmp_path: Path) -> None:
    declare(channel, "a", "b")
    properties = pika.BasicProperties(delivery_mode=2, headers={"bytes": b"\xff", "big": 2**40}, content_type="x")
    channel.basic_publish("", "a", b"\x00\xff", properties)
    channel.basic_publish("", "a", b"x" * 20_000_000)
    fill(channel, "a", range(600))
    file = tmp_path / "messages.jsonl"
    done = broker.penstock("message", "export", "a", str(file))
    assert (done.returncode, done.stdout) == (0, "602 messages of queue 'a' exported\n"), done.stderr
    assert ready(channel, "a") == 602 and [each.name for each in tmp_path.iterdir()] == ["messages.jsonl"]
    done = broker.penstock("message", "import", str(file), "b")
    assert (done.returncode, done.stdout) == (0, "602 messages imported to queue 'b'\n"), done.stderr
    first, large, *others = drained(channel, "b")
    assert first[1:] == (properties, b"\x00\xff") and large[2] == b"x" * 20_000_000
    assert [int(body) for _, _, body in others] == [*range(600)]


def test_a_stopped_import_goes_on_at_its_position(broker: Broker, channel: Any, tmp_path: Path) -> None:
    declare(channel, "b")
    file = tmp_path / "messages.jsonl"
    file.write_text("".join(f'{{"body": "{number}"}}\n' for number in range(100)))
    load = started(broker, "import", str(file), "b", "--rate", "20")
    wait_for(lambda: ready(channel, "b") >= 5, what="the first messages")
    load.send_signal(signal.SIGINT)
    out, _ = load.communicate(timeout=PATIENCE)
    assert load.returncode == 130 and out.endswith(" goes on\n"), out
    position = out.split()[-3]
    assert broker.penstock("message", "import", str(file), "b", "--skip", position).returncode == 0
    assert numbers(channel, "b") == [*range(100)]


def test_an_import_ends_at_a_line_that_is_no_message(broker: Broker, channel: Any, tmp_path: Path) -> None:
    declare(channel, "b")
    file = tmp_path / "messages.jsonl"
    file.write_text('{"body": "1"}\n{"body": "2"}\nx\n{"body": "4"}\n')
    done = broker.penstock("message", "import", str(file), "b")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{file}, line 3: not an exported message; " in done.stderr and "--skip" in done.stderr
    position = int(done.stderr.split()[-3])
    assert numbers(channel, "b") == [1, 2][:position]


def test_a_move_survives_the_death_of_an_acceptor(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        with channel_to(broker) as channel:
            declare(channel, "a", "b")
            fill(channel, "a", range(400))
        move = started(broker, "move", "a", "b", "--rate", "100")
        with channel_to(broker) as channel:
            wait_for(lambda: ready(channel, "b") > 20, what="the first messages")
        broker.wait_replaced("acceptor", broker.kill("acceptor"))
        out, errors = move.communicate(timeout=PATIENCE)
        assert move.returncode == 0 and "moved to queue 'b'" in out, errors
        assert "lost, trying again" in errors
        with channel_to(broker) as channel:
            assert sorted(set(numbers(channel, "b"))) == [*range(400)]
            assert numbers(channel, "a") == []
