"""Requests made to break the HTTP interface of a real node: each is answered or hung up on, and the node goes on."""

from __future__ import annotations

import base64
import socket
from contextlib import suppress
from random import Random

import pytest

from console.http.server import HEADERS_MOST
from console.http.shield import BODY_MOST, SMALL
from tests.console.http.node import BASIC, OVERVIEW, HttpBroker, connected, drained, exchange, status
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("unharmed")]

MIB = 1024 * 1024

ODD = {
    "a method": b"F\x00O / HTTP/1.1\r\nhost: x\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two lengths": b"POST /api/session HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}",
    "a length that is none": b"POST /api/session HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n{}",
    "a length and chunks": (
        b"POST /api/session HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ntransfer-encoding: gzip, chunked\r\n\r\n{}"
    ),
    "a chunk": b"POST /api/session HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    "a large head": b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"a" * (2 * HEADERS_MOST) + b"\r\n\r\n",
    "endless headers": b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 20_000,
    "a header": b"GET / HTTP/1.1\r\nhost: x\r\na b: c\r\n\r\n",
    "a line": b"\0\nGET / HTTP/1.1\nhost: x\n\n",
    "a session of TLS": bytes.fromhex("16030100c8010000c40303") + bytes(189),
    "AMQP": b"AMQP\0\0\x09\x01",
}


@pytest.mark.parametrize("what", ODD)
def test_what_is_no_http_is_answered_or_hung_up_on(node: HttpBroker, what: str) -> None:
    assert status(exchange(node, ODD[what])) in (0, 400, 401)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (b"/../../etc/passwd", 404), (b"/%2e%2e/%2e%2e/etc/passwd", 404), (b"/..%2f..%2fetc%2fpasswd", 404),
        (b"//etc/passwd", 404), (b"/\\..\\", 404), (b"/%00", 404), (b"/index.html%00.js", 404),
        (b"/api/queues/%00", 404), (b"/api/queues/%ff%fe", 404), (b"/api/queues/%", 404), (b"/api/queues/%zz/%2", 404),
        (b"/api/queues/%2F/%ed%a0%80", 404), (b"/api/queues/" + b"a" * 40_000, 404), (b"*", 404),
        (b"http://elsewhere/api/overview", 404), (b"/api/queues?" + b"a=b&" * 12_000, 200),
        (b"/api/queues?name=%ff%00&columns=" + b"a." * 1900, 200), (b"/api/queues?page=-1", 400),
        (b"/api/queues?page=9" + b"9" * 5000, 400), (b"/api/queues?use_regex=true&name=((((", 400),
        (b"/api/queues?use_regex=true&name=(a*)*b&sort=" + b"x.y" * 60, 200), (b"/api/queues?sort=" + b"x" * 300, 400),
    ],
)  # fmt: skip
def test_odd_targets_find_nothing(node: HttpBroker, target: bytes, expected: int) -> None:
    """To users that see all vhosts; errors are of one kind."""
    answer = exchange(node, b"GET " + target + b" HTTP/1.1\r\nhost: x\r\nconnection: close\r\n" + BASIC + b"\r\n")
    assert status(answer) == expected, answer[:500]
    assert expected == 200 or b'{"error":' in answer


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "OPTIONS", "get", "X" * 1000])
def test_methods_that_a_path_does_not_have(node: HttpBroker, method: str) -> None:
    target = b"x:1" if method == "CONNECT" else b"/api/overview"
    answer = exchange(node, method.encode() + b" " + target + b" HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    assert status(answer) in (400, 404, 405), answer


@pytest.mark.parametrize(
    "password", ["", ":", "\0", "ünï", "x" * 20_000, "\udcff\udcfe", "a:b:c", "\r\n"], ids=range(8)
)
def test_odd_passwords_are_wrong(node: HttpBroker, password: str) -> None:
    content = {"username": "guest", "password": password}
    assert node.request("POST", "/api/session", content, user=None).status in (400, 401)
    given = base64.b64encode(b"guest:" + password.encode("utf-8", "surrogateescape")).decode()
    assert node.get("/api/overview", user=None, headers={"authorization": f"Basic {given}"}).status == 401
    wait_for(lambda: node.get("/api/overview").status == 200)


@pytest.mark.parametrize(
    "given", [b"[" * 60_000, b'{"username":' * 5000, b"\xff\xfe", b"{", b"null", b"1e999", b'{"username": {}}', b"NaN"]
)
def test_odd_bodies_are_bad_requests(node: HttpBroker, given: bytes) -> None:
    answer = node.request("POST", "/api/session", given, user=None)
    assert answer.status == 400 and set(answer.json) == {"error", "reason"}


def chunked(size: int) -> bytes:
    piece = b"%x\r\n" % MIB + b" " * MIB + b"\r\n"
    return piece * (size // MIB) + b"0\r\n\r\n"


@pytest.mark.parametrize("kind", ["length", "chunks"])
def test_large_bodies_are_for_users_and_bounded(node: HttpBroker, kind: str) -> None:
    def post(size: int, header: bytes = b"") -> int:
        head = b"POST /api/session HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n"
        how = b"content-length: %d\r\n\r\n" % size if kind == "length" else b"transfer-encoding: chunked\r\n\r\n"
        body = b" " * size if kind == "length" else chunked(size)
        with connected(node) as client:
            with suppress(BrokenPipeError, ConnectionResetError):
                client.sendall(head + header + how + body)
            return status(drained(client))

    assert post(2 * SMALL if kind == "length" else MIB) in (0, 401)
    assert post(MIB, BASIC) == 400
    assert post(BODY_MOST + MIB, BASIC) in (0, 413)


def test_the_size_that_is_announced_is_enough_to_refuse(node: HttpBroker) -> None:
    head = b"POST /api/session HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 99999999999\r\n\r\n"
    with connected(node) as client:
        client.sendall(head)
        assert status(client.recv(1000)) == 413


def test_sent_at_random(node: HttpBroker) -> None:
    random = Random(7)
    for port in ("api", "metrics"):
        for _ in range(40):
            begun = random.choice([b"", b"GET / HTTP/1.1\r\n", OVERVIEW, b"POST /api/session HTTP/1.1\r\nhost: x\r\n"])
            sent = bytearray(begun + random.randbytes(random.randrange(2000)))
            for _ in range(random.randrange(4)):
                sent[random.randrange(len(sent) + 1) - 1 :] = random.randbytes(3)
            with connected(node, port) as client, suppress(OSError):
                client.sendall(sent)
                client.shutdown(socket.SHUT_WR)
                drained(client)


def test_garbage_after_a_request_that_is_under_way(node: HttpBroker) -> None:
    for header in (b"", BASIC):
        head = b"POST /api/session HTTP/1.1\r\nhost: x\r\n" + header + b"transfer-encoding: chunked\r\n\r\n"
        exchange(node, head + b"2\r\n{}\r\nzz\r\n")
        exchange(node, b"GET /api/overview HTTP/1.1\r\nhost: x\r\n" + header + b"\r\n\0\0\0garbage\r\n\r\n")
