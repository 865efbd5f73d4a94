"""Errors of a peer, by reply code (AMQP 0-9-1, 1.2 and 4.10).

    AMQPError               has a reply code, an explanation and the method that failed
    ├── SoftError           closes the channel: 311, 312, 313, 403, 404, 405, 406
    └── HardError           closes the connection: 320, 402, 501 to 506, 530, 540, 541
        └── FrameSyntaxError    raised by the codec: undecodable bytes (501), forbidden values (502)

All of them tell the peer of its own mistake. The owner of the socket turns one into channel.close or connection.close,
and on channel 0, where there is no channel to close, treats a soft error as a hard one. A bug of ours is none of these.
"""

from __future__ import annotations

from penstock.amqp.spec import HARD_CODES, REPLY_NAMES, SOFT_CODES, MethodSpec

REPLY_TEXT_MAX = 255
"""Bytes of a reply text: it is a short string."""


class AMQPError(Exception):
    """A reply code with its explanation; `class_id` and `method_id` name the method that failed, 0 and 0 if none."""

    hard = True

    def __init__(self, code: int, text: str, class_id: int = 0, method_id: int = 0) -> None:
        super().__init__(code, text, class_id, method_id)
        self.code = code
        self.text = text
        self.class_id = class_id
        self.method_id = method_id

    @property
    def reply_text(self) -> str:
        """`NAME - text`, or `NAME` if there is no text, in at most 255 bytes of valid UTF-8."""
        name = REPLY_NAMES[self.code]
        text = f"{name} - {self.text}" if self.text else name
        # Names received as broken UTF-8 hold surrogates, which become question marks.
        return text.encode("utf-8", "replace")[:REPLY_TEXT_MAX].decode("utf-8", "ignore")

    def __str__(self) -> str:
        return f"{self.code} {self.reply_text}"


class SoftError(AMQPError):
    """An error that closes the channel."""

    hard = False


class HardError(AMQPError):
    """An error that closes the connection."""


class FrameSyntaxError(HardError):
    """The peer's bytes do not decode (501), or hold a forbidden value (502)."""


def amqp_error(code: int, text: str, method: MethodSpec | None = None) -> AMQPError:
    """The error for a reply code: a `SoftError` or a `HardError`. ValueError if the code names no error."""
    if code in SOFT_CODES:
        kind: type[AMQPError] = SoftError
    elif code in HARD_CODES:
        kind = HardError
    else:
        raise ValueError(f"{code} is not an error's reply code")
    return kind(code, text, method.class_id, method.method_id) if method else kind(code, text)
