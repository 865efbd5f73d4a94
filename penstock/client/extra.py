"""The libraries of other people on which the clients are built: each client's come with an extra."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Raise an ImportError that names the extra if an import of the block fails for want of a library."""
    try:
        yield
    except ModuleNotFoundError as missing:
        library = (missing.name or "").partition(".")[0]
        if library == "penstock":
            raise
        raise ImportError(f"{library} is not installed: pip install 'penstock[{extra}]'") from None
