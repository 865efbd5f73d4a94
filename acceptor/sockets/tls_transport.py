"""The transport of a client's socket, as it is to those who write plaintext. Sizes and limits are of ciphertext."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Any

from acceptor.tls.stream import TlsStream


class TlsTransport:
    """Encrypts between a connection's socket (`ClientProtocol`) and the transport of the loop."""

    def __init__(self, transport: Any, stream: TlsStream) -> None:
        self._transport = transport
        self._stream = stream
        self._closed = False
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading
        self.is_closing = transport.is_closing
        self.abort = transport.abort
        self.get_extra_info = transport.get_extra_info
        self.get_write_buffer_size = transport.get_write_buffer_size
        self.set_write_buffer_limits = transport.set_write_buffer_limits

    def writelines(self, chunks: Sequence[Any]) -> None:
        """Write chunks, which are copied."""
        if self._closed:
            return
        try:
            ciphertext = self._stream.encrypt(chunks)
        except ssl.SSLError:  # the session has failed, of which the next read hears
            self._transport.abort()
            return
        self._transport.writelines(ciphertext)

    def write_eof(self) -> None:
        """Close our side."""
        self._say_goodbye()
        self._transport.write_eof()

    def close(self) -> None:
        """Close the socket once the kernel has accepted all output."""
        self._say_goodbye()
        self._transport.close()

    def _say_goodbye(self) -> None:
        if not self._closed and not self._transport.is_closing():
            self._closed = True
            self._transport.writelines([self._stream.close()])
