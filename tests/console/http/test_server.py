"""Many clients of the HTTP interface, and slow ones: others are served, memory is bounded, and the recorder goes on."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from itertools import pairwise

import psutil
import pytest

from console.http.crowd import UNREAD_MOST
from penstock.control import passwords
from tests.console.http.conftest import CONNECTIONS, IDLE, console, memory
from tests.console.http.node import BASIC, OVERVIEW, HttpBroker, connected, drained
from tests.penstock.telemetry.reading import rows
from tests.waiting import PATIENCE, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("unharmed")]

MIB = 1024 * 1024


def is_over(client: socket.socket) -> bool:
    """Whether the node has ended a connection, on which it had nothing else to say."""
    try:
        return client.recv(1 << 16) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    "begun", [b"", b"GET /api/over", b"GET / HTTP/1.1\r\nhost: x\r\n", OVERVIEW,
        b"POST /api/session HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{"],
    ids=["nothing", "line", "head", "keep-alive", "body"],
)  # fmt: skip
def test_slow_clients_are_hung_up_on(node: HttpBroker, begun: bytes) -> None:
    """Also if they send an octet now and then."""
    with connected(node) as client:
        client.sendall(begun)
        client.settimeout(0.3)
        began = time.monotonic()
        while True:
            assert time.monotonic() < began + PATIENCE
            try:
                if is_over(client):
                    break
            except TimeoutError:
                if begun not in (b"", OVERVIEW):
                    try:
                        client.sendall(b" ")
                    except (BrokenPipeError, ConnectionResetError):
                        break
        assert time.monotonic() - began > IDLE - 1


def test_a_client_that_is_used_stays(node: HttpBroker) -> None:
    with closing(HTTPConnection(*node.http("metrics"), timeout=PATIENCE)) as client:
        client.connect()
        mine = client.sock
        began = time.monotonic()
        while time.monotonic() < began + 2 * IDLE:
            client.request("GET", "/metrics")
            assert client.getresponse().read()
            time.sleep(0.2)
        assert client.sock is mine


def test_silent_clients_keep_nobody_out(node: HttpBroker) -> None:
    """The one that waits longest makes room for a new one."""
    files = psutil.Process(console(node)).num_fds()
    with ExitStack() as stack:
        silent = [stack.enter_context(connected(node)) for _ in range(2 * CONNECTIONS)]
        assert node.get("/api/overview").status == 200
        assert node.get("/metrics", port="metrics").status == 200
        assert psutil.Process(console(node)).num_fds() < files + CONNECTIONS + 50
        assert is_over(silent[0])
    wait_for(lambda: psutil.Process(console(node)).num_fds() <= files + 5, what="files that are closed")


def test_thousands_of_requests_at_once_are_answered_in_turn(node: HttpBroker) -> None:
    """While other clients are, too."""
    count, request = 3000, b"GET /api/whoami HTTP/1.1\r\nhost: x\r\n\r\n"
    with connected(node) as client, ThreadPoolExecutor(1) as threads:
        sending = threads.submit(client.sendall, request * count)
        assert client.recv(100, socket.MSG_PEEK).startswith(b"HTTP/1.1 401")
        began = time.monotonic()
        assert node.get("/api/overview").status == 200
        assert time.monotonic() - began < 10
        found = 0
        while found < count:
            part = client.recv(1 << 20)
            assert part
            found += part.count(b"HTTP/1.1 401")
        sending.result()


@pytest.mark.slow
def test_requests_whose_answers_nobody_reads_wait(node: HttpBroker) -> None:
    """Their clients are hung up on in the end."""
    files = psutil.Process(console(node)).num_fds()
    with ExitStack() as stack:
        clients = [stack.enter_context(connected(node, "metrics", receive_buffer=4096)) for _ in range(3)]
        for client in clients:
            client.sendall(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n" * 1000)
        assert node.get("/api/overview").status == 200
        wait_for(lambda: psutil.Process(console(node)).num_fds() <= files, what="clients that are hung up on")


def test_guesses_keep_nobody_waiting(node: HttpBroker) -> None:
    """From one host; a user who logs in is checked among them."""
    user = "operator"
    node.call("user_add", name=user, password_hash=passwords.hashed("right"), tags=["administrator"])
    stop = []

    def guess(number: int) -> set[int]:
        found = set()
        while not stop:
            found.add(node.get("/api/whoami", user=(f"nobody-{number}", "wrong")).status)
        return found

    with ThreadPoolExecutor(32) as threads:
        guesses = [threads.submit(guess, number) for number in range(32)]
        try:
            for _ in range(5):
                began = time.monotonic()
                assert node.get("/api/whoami", user=(user, "right")).json["name"] == user
                assert time.monotonic() - began < 10
        finally:
            stop.append(True)
        assert [each.result() for each in guesses] == [{401}] * 32


def test_a_refused_login_takes_a_while(node: HttpBroker) -> None:
    began = time.monotonic()
    assert node.get("/api/whoami", user=("nobody", "wrong")).status == 401
    assert time.monotonic() - began >= 1


@pytest.fixture
def large_answers(node: HttpBroker) -> Iterator[bytes]:
    """Declare queues with long names, and return a request whose answer is some MiB."""
    with node.connect() as client:
        channel = client.channel()
        for number in range(3000):
            channel.call("queue.declare", queue=f"{number:0200}", exclusive=True)
        wait_for(lambda: len(node.get("/metrics/per-object", port="metrics").body) > 8 * MIB)
        yield b"GET /metrics/per-object HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.mark.slow
def test_answers_that_nobody_reads_are_bounded(node: HttpBroker, large_answers: bytes) -> None:
    """Memory is, others are served, and the recorder goes on; those who do not read lose their connection."""
    pid = console(node)
    before, highest, began = memory(pid), 0, time.time()
    with ExitStack() as stack:
        clients = []
        for _ in range(40):
            client = stack.enter_context(connected(node, "metrics", receive_buffer=4096))
            client.sendall(large_answers * 3)
            clients.append(client)
        while time.time() < began + 6 * IDLE:
            highest = max(highest, memory(pid))
            assert node.get("/api/overview").status == 200
        for client in clients:
            assert drained(client).count(b"HTTP/1.1 200") <= 1
    assert highest - before < 2 * UNREAD_MOST
    assert longest_gap(node, began) < 5


@pytest.mark.slow
def test_a_follower_who_does_not_read_is_hung_up_on(node: HttpBroker) -> None:
    """While another one is told of each change."""
    everything = {"vhost": "/", "exchange": None, "key": None, "user": None, "connection": None}
    stop = {**everything, "author": "me", "reason": "x" * 100, "seconds": None}
    for number in range(300):
        node.call("flow_stop", queue=f"stopped-{number}", **stop)
    try:
        files = psutil.Process(console(node)).num_fds()
        with connected(node, receive_buffer=4096) as deaf, connected(node) as reader:
            for client in (deaf, reader):
                client.sendall(b"GET /api/flow/events HTTP/1.1\r\nhost: x\r\n" + BASIC + b"\r\n")
            assert reader.recv(1 << 16).startswith(b"HTTP/1.1 200")

            def is_alone() -> bool:
                node.call("flow_stop", queue="stopped-0", **stop)
                assert reader.recv(1 << 20)
                return psutil.Process(console(node)).num_fds() <= files + 1

            wait_for(is_alone, what="the follower who does not read to be hung up on")
    finally:
        for each in node.call("flow_stops"):
            node.call("flow_lift", number=each["number"])


@pytest.mark.slow
def test_ten_thousand_clients(node: HttpBroker) -> None:
    """Silent ones: files and memory stay within the bound of connections."""
    pid = console(node)
    before, files, began = memory(pid), psutil.Process(pid).num_fds(), time.time()
    with ExitStack() as stack:
        for number in range(10_000):
            stack.enter_context(connected(node))
            if number % 1000 == 0:
                assert node.get("/api/overview").status == 200
        assert psutil.Process(pid).num_fds() <= files + CONNECTIONS + 50
        assert memory(pid) < before + 48 * MIB
    assert longest_gap(node, began) < 5


def longest_gap(node: HttpBroker, since: float) -> float:
    """Return the longest time between two records of the shard, in seconds."""
    root = node.directory / "data" / "telemetry"
    until = time.time()

    def times() -> list[float]:
        return [row["ts"] / 1e6 for row in rows(root, "shard") if row["ts"] / 1e6 > since]

    wait_for(lambda: any(each > until for each in times()), what="records")
    return max(after - before for before, after in pairwise(times()))
