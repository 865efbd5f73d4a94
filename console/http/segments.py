"""Names in paths: percent-encoded, since they may have a slash in them, such as the vhost "/" (%2F)."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import unquote_to_bytes

from fastapi import Path
from pydantic import AfterValidator


def decoded(segment: str) -> str:
    """Return the name that a segment of a path encodes; bytes that are not UTF-8 are kept (PEP 383)."""
    return unquote_to_bytes(segment).decode("utf-8", "surrogateescape")


Segment = Annotated[str, Path(), AfterValidator(decoded)]
"""A name in a path."""
