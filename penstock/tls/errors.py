"""The error of certificates, keys and contexts."""

from __future__ import annotations

from pathlib import Path


class TlsError(Exception):
    """A certificate, a key or their listener cannot be used; the text says why in one line."""


def reason(error: Exception) -> str:
    """Return the reason of an error of files, OpenSSL or a parser, in one line."""
    if isinstance(error, OSError) and error.strerror and not getattr(error, "reason", None):
        return error.strerror
    found = getattr(error, "reason", None) or str(error) or type(error).__name__
    return " ".join(str(found).split()).rstrip(".")


def unreadable(what: str, path: Path | None, error: Exception) -> TlsError:
    """Return the error of a file that cannot be used as a certificate, a key or certificates of authorities."""
    return TlsError(f"{what} {path}: {reason(error)}")
