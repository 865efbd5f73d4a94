"""Our part of Locust's web UI: validation of its form, a tab, and a section of the report."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import flask
from locust.env import Environment

from load.counters import Tally
from load.figures import TITLES, rows
from load.options import ARGUMENTS, LoadOptions, target_of
from load.report import insert_section
from load.target import without_password

KEY = "flow-control"
DECIMALS = 1


def refuse(environment: Environment) -> flask.Response | None:
    """Return the error for a form with impossible settings, in the form in which Locust reports a wrong number of
    users; None if the settings are good.
    """
    parsed = environment.parsed_options
    assert parsed is not None
    settings = dict(vars(parsed))
    try:
        for name, value in flask.request.form.items():
            if name in settings and settings[name] is not None and name in ARGUMENTS:
                settings[name] = type(settings[name])(value)
        LoadOptions.of(Namespace(**settings))
        target_of(flask.request.form.get("host") or environment.host)
    except ValueError as error:
        return flask.jsonify({"success": False, "message": str(error), "host": environment.host})
    return None


def extend(environment: Environment, tally: Tally, section: Callable[[], str]) -> None:
    """Add the tab, its figures to the responses that the UI polls, and `section()` to downloaded reports. What is
    downloaded has no password.
    """
    web_ui = environment.web_ui
    if web_ui is None or web_ui.app is None:
        return
    web_ui.template_args |= {
        "extended_tabs": [{"title": "Flow control", "key": KEY}],
        "extended_tables": [{"key": KEY, "structure": [{"key": key, "title": title} for key, title in TITLES.items()]}],
    }

    def check_form() -> flask.Response | None:
        starts = flask.request.method == "POST" and flask.request.path.endswith("/swarm")
        return refuse(environment) if starts else None

    def add_figures(response: flask.Response) -> flask.Response:
        path = flask.request.path
        if path.endswith("/stats/requests") and response.is_json:
            figures: dict[str, Any] = response.get_json()
            stats = [{"key": KEY, "data": [rounded(asdict(row)) for row in rows(tally)]}]
            response.set_data(flask.json.dumps(figures | {"extended_stats": stats}))
        elif path.endswith("/stats/report"):
            text = without_password(response.get_data(as_text=True), environment.host)
            response.set_data(insert_section(text, section()))
        if name := response.headers.get("Content-Disposition"):
            response.headers["Content-Disposition"] = without_password(name, environment.host)
        return response

    web_ui.app.before_request(check_form)
    web_ui.app.after_request(add_figures)


def rounded(row: dict[str, Any]) -> dict[str, Any]:
    """Round the row's fractions for display."""
    return {name: round(value, DECIMALS) if isinstance(value, float) else value for name, value in row.items()}
