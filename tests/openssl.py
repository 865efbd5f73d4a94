"""The client's side of a TLS session by OpenSSL's own library, for what Python's `ssl` cannot send: a KeyUpdate (RFC
8446, 4.6.3).
"""

from __future__ import annotations

import ctypes
from ctypes.util import find_library
from typing import Any, Self

from tests import certificates

UPDATE_BYTES = 27
"""Bytes of a KeyUpdate on the wire: a record with 5 bytes of a message, its type, and what encryption adds."""
VERIFY_PEER = 1
UPDATE_REQUESTED = 1


class OpenSslSession:
    """The client's side, without a socket. It verifies its server. AssertionError if a call fails."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(find_library("ssl"))
        context, authority = self._made("SSL_CTX_new", self._made("TLS_client_method")), certificates.authority()
        self._call("SSL_CTX_load_verify_locations", context, str(authority.directory / "authority.pem").encode(), None)
        self._library.SSL_CTX_set_verify(context, VERIFY_PEER, None)
        self._ssl = self._made("SSL_new", context)
        self._library.SSL_CTX_free(context)
        self._incoming, self._outgoing = (self._made("BIO_new", self._made("BIO_s_mem")) for _ in range(2))
        self._call("SSL_set1_host", self._ssl, b"localhost")
        self._library.SSL_set_bio(self._ssl, self._incoming, self._outgoing)
        self._library.SSL_set_connect_state(self._ssl)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._library.SSL_free(self._ssl)

    def shake_hands(self, ciphertext: bytes = b"") -> bool:
        """Feed what the server has sent; return whether the handshake is complete."""
        if ciphertext:
            assert self._library.BIO_write(self._incoming, ciphertext, len(ciphertext)) == len(ciphertext)
        return bool(self._library.SSL_do_handshake(self._ssl) == 1)

    def write(self, plaintext: bytes) -> bytes:
        """Return the ciphertext of bytes."""
        assert self._library.SSL_write(self._ssl, plaintext, len(plaintext)) == len(plaintext)
        return self.output()

    def updates(self, count: int) -> bytes:
        """Return so many KeyUpdates, each of which asks for another one in return."""
        for _ in range(count):
            self._call("SSL_key_update", self._ssl, UPDATE_REQUESTED)
            self._call("SSL_do_handshake", self._ssl)
        return self.output()

    def output(self) -> bytes:
        """Return what has to be sent to the server."""
        buffer = ctypes.create_string_buffer(self._library.BIO_ctrl_pending(self._outgoing) or 1)
        length = max(self._library.BIO_read(self._outgoing, buffer, len(buffer)), 0)
        return buffer.raw[:length]

    def _made(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        function = getattr(self._library, name)
        function.restype = ctypes.c_void_p
        made = ctypes.c_void_p(function(*arguments))
        assert made, name
        return made

    def _call(self, name: str, *arguments: Any) -> None:
        assert getattr(self._library, name)(*arguments) == 1, name
