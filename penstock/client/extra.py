"""The libraries of other people on which the clients are built: each client's come with an extra."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

EXTRAS_ALONE = {"client": "aio"}
"""The extras of the distribution `penstock-client` that are called otherwise than those of `penstock`."""


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Raise an ImportError that names the extra if an import of the block fails for want of a library."""
    try:
        yield
    except ModuleNotFoundError as missing:
        library = (missing.name or "").partition(".")[0]
        if library == "penstock":
            raise
        raise ImportError(f"{library} is not installed: pip install '{_with_extra(extra)}'") from None


def _with_extra(extra: str) -> str:
    """Return the installed distribution with an extra."""
    try:
        version("penstock-client")
    except PackageNotFoundError:
        return f"penstock[{extra}]"
    return f"penstock-client[{EXTRAS_ALONE.get(extra, extra)}]"
