"""Errors as RabbitMQ's management answers them: a status, and {"error": kind, "reason": text}."""

from __future__ import annotations

from starlette.exceptions import HTTPException

from penstock.control.control import Refusal
from penstock.text.utf8 import readable

KINDS = {
    400: "bad_request",
    401: "not_authorised",
    403: "forbidden",
    404: "Object Not Found",
    405: "method_not_allowed",
    409: "conflict",
    413: "payload_too_large",
    415: "unsupported_media_type",
    429: "too_many_requests",
    503: "service_unavailable",
}

NOT_FOUND = "Not Found"
"""The reason of a 404 for what the path names; RabbitMQ has another kind of error where the reason says more."""
STATUS_OF_REFUSAL = {"invalid": 400, "denied": 401, "not_found": 404, "exists": 409, "failed": 500, "busy": 503}


class HttpError(HTTPException):
    """An error to answer; the reason is one line for the client."""

    def __init__(self, status: int, reason: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(status, reason, headers or {})

    @property
    def status(self) -> int:
        """The status of the answer."""
        return self.status_code

    @property
    def body(self) -> dict[str, str]:
        """The body of the answer."""
        reason = readable(self.detail)
        kind = "not_found" if self.status == 404 and reason != NOT_FOUND else KINDS.get(self.status)
        return {"error": kind or "internal_server_error", "reason": reason}


def of_refusal(refusal: Refusal) -> HttpError:
    """Return the error for a refusal of another process."""
    return HttpError(STATUS_OF_REFUSAL[refusal.kind], str(refusal))


def not_found() -> HttpError:
    """Return the error for an object that does not exist, or that the user may not see."""
    return HttpError(404, NOT_FOUND)
