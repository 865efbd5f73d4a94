"""The application of the HTTP interface: its routes, and its answers to errors."""

from __future__ import annotations

import time

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from console.api import ROUTERS as API
from console.api.flow import ROUTERS as FLOW
from console.broker import Broker
from console.http import login, metrics, pages
from console.http.access import caller, nobody
from console.http.answers import answer
from console.http.errors import HttpError, of_refusal
from console.http.sessions import Sessions
from console.http.shield import Shield
from console.watch import Watch
from penstock import __version__
from penstock.control.control import Refusal
from penstock.node.logs import get_logger

log = get_logger()

DESCRIPTION = "The management API of RabbitMQ as far as its clients use it, and penstock's own under /api/flow."


def application(broker: Broker, watch: Watch) -> Shield:
    """Return the application of the API, the console and metrics for users."""
    app = _bare("penstock", DESCRIPTION)
    app.state.broker = broker
    app.state.watch = watch
    app.state.sessions = Sessions(broker.topology.users, time.monotonic)
    for router in (*API, *FLOW, login.router, metrics.router, pages.router):
        app.include_router(router)
    return Shield(app, caller)


def metrics_application(broker: Broker) -> Shield:
    """Return the application of the port for metrics alone, which asks for no login."""
    app = _bare("penstock metrics", "Metrics of a node, as Prometheus scrapes them.")
    app.state.broker = broker
    app.include_router(metrics.open_router)
    return Shield(app, nobody)


def _bare(title: str, description: str) -> FastAPI:
    app = FastAPI(
        title=title, description=description, version=__version__, openapi_url="/api/openapi.json", docs_url=None,
        redoc_url=None,
    )  # fmt: skip
    app.add_exception_handler(HttpError, _on_http_error)
    app.add_exception_handler(Refusal, _on_refusal)
    app.add_exception_handler(OSError, _on_unreachable)
    app.add_exception_handler(HTTPException, _on_exception)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(Exception, _on_bug)
    return app


def _error(error: HttpError) -> Response:
    response = answer(error.body, error.status)
    response.headers.update(error.headers or {})
    return response


def _on_http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HttpError)
    return _error(error)


def _on_refusal(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return _error(of_refusal(error))


def _on_unreachable(request: Request, error: Exception) -> Response:
    """A process of the node is starting, stopping or stuck."""
    log.warning("a request over HTTP was not answered", path=request.url.path, problem=str(error))
    return _error(HttpError(503, f"a process of the node does not answer: {error}; try again"))


def _on_exception(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    reason = "Not Found" if error.status_code == 404 else str(error.detail)
    return _error(HttpError(error.status_code, reason, dict(error.headers or {})))


def _on_invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = error.errors()[0]
    where = ".".join(str(part) for part in found["loc"][1:]) or "the body"
    return _error(HttpError(400, f"{where}: {found['msg']}"))


def _on_bug(request: Request, error: Exception) -> Response:
    log.error("a request over HTTP failed", method=request.method, path=request.url.path, exc_info=error)
    return _error(HttpError(500, "the request failed, the log has more"))
