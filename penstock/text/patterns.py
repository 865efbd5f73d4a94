r"""Regular expressions written by operators, for names chosen by clients: a match takes time linear in the name.

The syntax is RE2's, plus the extension that operators of RabbitMQ use most: lookaheads at the very start, as in
`^(?!amq\\.).*`. Other lookarounds and back references are refused when a pattern is made.

With the prefix `wildcard:` a pattern has ActiveMQ's syntax instead, for names of words between dots: `*` stands for a
word, `>` at the end for any number of words. It must match the whole name.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import re2

PATTERN_BYTES_MAX = 1024

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 1 << 20  # bytes for one expression; RE2's default is 8 MiB
WILDCARD = "wildcard:"
_START = "^"
_AHEAD, _NOT_AHEAD = "(?=", "(?!"


class PatternError(ValueError):
    """A text that is not a regular expression, or one that cannot be matched in linear time; the error says why."""


class _Part(NamedTuple):
    """One expression that must be found, or must not."""

    expression: re2._Regexp
    wanted: bool


class Pattern:
    """A regular expression. A name matches if the expression is found anywhere in it, unless it is anchored."""

    __slots__ = ("_parts", "text")

    def __init__(self, text: str) -> None:
        """Compile a pattern. PatternError if it is invalid."""
        self.text = text
        if len(_nbytes(text)) > PATTERN_BYTES_MAX:
            raise PatternError(f"a regular expression of more than {PATTERN_BYTES_MAX} bytes")
        expression = _from_wildcards(text.removeprefix(WILDCARD)) if text.startswith(WILDCARD) else text
        self._parts = tuple(_parts(expression))

    def matches(self, name: str) -> bool:
        """Whether a name matches."""
        nbytes = _nbytes(name)
        return all((part.expression.search(nbytes) is not None) == part.wanted for part in self._parts)

    def expressions(self) -> list[tuple[str, bool]]:
        """The regular expressions of the pattern, and whether each must be found in a name, or must not."""
        return [(_text(part.expression.pattern), part.wanted) for part in self._parts]


@lru_cache(maxsize=4096)
def pattern(text: str) -> Pattern:
    """The pattern of a text, cached. PatternError if it is invalid."""
    return Pattern(text)


def literal(text: str) -> str:
    """An expression, or a part of one, for exactly that text."""
    return str(re2.escape(_nbytes(text)).decode("utf-8", "surrogateescape"))


def _from_wildcards(text: str) -> str:
    words = text.split(".")
    if ">" in words[:-1] or any(len(word) > 1 and not {"*", ">"}.isdisjoint(word) for word in words):
        raise PatternError(f"'{text}' is not a wildcard pattern: * and > are whole words, > the last one")
    fixed = literal(".").join(r"[^.]*" if word == "*" else literal(word) for word in words if word != ">")
    if words[-1] != ">":
        return f"^{fixed}$"
    return rf"^{fixed}(?s:\..*)?$" if fixed else "^"


def _parts(text: str) -> list[_Part]:
    """`^(?!a)(?=b)c` is: not `^(?:a)`, and `^(?:b)`, and `^(?:c)`."""
    parts: list[_Part] = []
    rest = text.removeprefix(_START)
    if text.startswith(_START):
        while rest.startswith((_AHEAD, _NOT_AHEAD)):
            end = _group_end(rest)
            parts.append(_Part(_compiled(f"^(?:{rest[3:end]})"), rest.startswith(_AHEAD)))
            rest = rest[end + 1 :]
    if not parts:
        return [_Part(_compiled(text), True)]
    if "|" in _outside_groups(rest):
        raise PatternError(f"'{text}' is not a regular expression: put what | separates into a group of its own")
    return [*parts, _Part(_compiled(f"^(?:{rest})"), True)]


def _compiled(text: str) -> re2._Regexp:
    try:
        return re2.compile(_nbytes(text), _OPTIONS)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if error.args else "it cannot be read"
        raise PatternError(f"'{text}' is not a regular expression: {reason}") from None


def _group_end(text: str) -> int:
    """Index of the parenthesis that closes the group at the start."""
    depth = 0
    for at, character in _outside_classes(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return at
    raise PatternError(f"'{text}' is not a regular expression: missing )")


def _outside_groups(text: str) -> str:
    depth, outside = 0, ""
    for _, character in _outside_classes(text):
        depth += (character == "(") - (character == ")")
        outside += character if depth == 0 else ""
    return outside


def _outside_classes(text: str) -> list[tuple[int, str]]:
    """Index and character of everything that is neither escaped nor within [ ]."""
    found: list[tuple[int, str]] = []
    at, opened = 0, -1
    while at < len(text):
        character = text[at]
        if character == "\\":
            at += 1
        elif opened >= 0:
            # A ] right after [ or [^ is a member of the class.
            if character == "]" and text[opened + 1 : at] not in ("", "^"):
                opened = -1
        elif character == "[":
            opened = at
        else:
            found.append((at, character))
        at += 1
    return found


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _nbytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
