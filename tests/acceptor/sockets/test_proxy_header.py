"""PROXY headers of both versions, whole and in parts, right and wrong."""

from __future__ import annotations

import struct
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acceptor.sockets.proxy_header import HEADER_MOST, LINE_MOST, NoProxyHeader, ProxyHeader, parse
from tests import proxies

HOSTS = st.ip_addresses().map(str)
PORTS = st.integers(0, 65535)
BEGINNINGS = [b"", b"PROXY ", proxies.SIGNATURE]


@given(HOSTS, PORTS, st.binary(max_size=200), st.binary(max_size=50))
def test_a_header_names_the_client_and_what_follows_is_left(host: str, port: int, more: bytes, rest: bytes) -> None:
    for header in (proxies.version_1(host, port), proxies.version_2(host, port), proxies.version_2(host, port, more)):
        assert parse(header + rest) == ProxyHeader(len(header), (str(ip_address(host)), port))
        for size in range(len(header)):
            assert parse(header[:size]) is None


def test_a_proxy_may_connect_for_itself_or_not_say_for_whom() -> None:
    assert parse(proxies.local() + b"AMQP") == ProxyHeader(16, None)
    assert parse(b"PROXY UNKNOWN\r\nAMQP") == ProxyHeader(15, None)
    assert parse(b"PROXY UNKNOWN ffff:f::f ffff:f::f 65535 65535\r\n") == ProxyHeader(47, None)
    unix = proxies.SIGNATURE + struct.pack(">BBH", 0x21, 0x31, 216) + bytes(216)
    assert parse(unix) == ProxyHeader(len(unix), None)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"AMQP\0\0\x09\x01", "there is no PROXY header"),
        (b"\x16\x03\x01", "there is no PROXY header"),
        (b"PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n", "cannot be read"),
        (b"PROXY TCP5 1.2.3.4 5.6.7.8 1 2\r\n", "cannot be read"),
        (b"PROXY \r\n", "cannot be read"),
        (b"PROXY TCP4 1.2.3.400 5.6.7.8 1 2\r\n", "no valid address"),
        (b"PROXY TCP4 ::1 ::1 1 2\r\n", "no valid address"),
        (b"PROXY TCP6 ::1 ::1 65536 2\r\n", "no valid address"),
        (b"PROXY TCP6 ::1 ::1 -1 2\r\n", "no valid address"),
        (b"PROXY TCP4 \xff.2.3.4 5.6.7.8 1 2\r\n", "no valid address"),
        (b"PROXY TCP4 " + b"1" * LINE_MOST, f"no end within {LINE_MOST} bytes"),
        (proxies.SIGNATURE + struct.pack(">BBH", 0x11, 0x11, 12), "version and command 0x11"),
        (proxies.SIGNATURE + struct.pack(">BBH", 0x22, 0x11, 12), "version and command 0x22"),
        (proxies.SIGNATURE + struct.pack(">BBH", 0x21, 0x11, 4) + bytes(4), "too short for its addresses"),
        (proxies.SIGNATURE + struct.pack(">BBH", 0x21, 0x11, 65535), f"{HEADER_MOST} at most are read"),
    ],
)
def test_what_is_no_header_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(NoProxyHeader, match=reason):
        parse(data)


def outcome(data: bytes) -> ProxyHeader | str | None:
    """Return a header, None if it is not complete, or the reason why there is none."""
    try:
        return parse(data)
    except NoProxyHeader as error:
        return str(error)


@given(st.binary(), st.sampled_from(BEGINNINGS))
def test_any_bytes_are_a_header_or_incomplete_or_refused(data: bytes, begin: bytes) -> None:
    found = outcome(begin + data)
    if isinstance(found, ProxyHeader):
        assert 0 < found.size <= len(begin + data)
    else:
        assert found is None or "\n" not in found


@given(st.binary(max_size=HEADER_MOST), st.sampled_from(BEGINNINGS))
def test_a_full_buffer_is_never_incomplete(data: bytes, begin: bytes) -> None:
    assert outcome((begin + data).ljust(HEADER_MOST, b"x")[:HEADER_MOST]) is not None
