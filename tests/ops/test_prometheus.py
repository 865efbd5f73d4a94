"""The alert rules and the dashboard use metrics that a node has, in expressions that Prometheus understands."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.metrics.exposition import Chosen, families
from console.metrics.family import Kind

DIRECTORY = Path(__file__).parents[2] / "ops" / "prometheus"
ALERTS = DIRECTORY / "alerts.yaml"
DASHBOARD = DIRECTORY / "dashboard.json"
NAME = re.compile(r"\b(?:penstock|rabbitmq)_\w+")
FOUND = [family for chosen in Chosen for family in families(chosen)]
NAMES = {family.name for family in FOUND} | {f"{each.name}_bucket" for each in FOUND if each.kind is Kind.HISTOGRAM}
TIMES = {"$__rate_interval": "5m", "$instance": "node"}
"""Grafana's variables, and what stands for them here."""


def expressions() -> Iterator[str]:
    """Return the expressions of the dashboard."""
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            expression = target["expr"]
            for variable, value in TIMES.items():
                expression = expression.replace(variable, value)
            yield expression


def promtool(*arguments: str | Path) -> str:
    """Run Prometheus' checker; return what it says. The test is skipped if it is not installed."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("file", [ALERTS, DASHBOARD], ids=["alerts", "dashboard"])
def test_all_metrics_are_those_of_a_node(file: Path) -> None:
    used = set(NAME.findall(file.read_text()))
    assert len(used) > 8 and used <= NAMES, used - NAMES


def test_panels_do_not_overlap_and_have_names_of_their_own() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["title"] for panel in panels}) == len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24 and taken.isdisjoint(cells), panel["title"]
        taken |= cells


def test_prometheus_takes_the_alerts() -> None:
    promtool("check", "rules", ALERTS)


def test_prometheus_understands_the_dashboard(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": each} for number, each in enumerate(expressions())]
    file = tmp_path / "rules.json"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", file)


def test_alerts_come_when_they_should(tmp_path: Path) -> None:
    """In promtool's own time: a queue that held its producers for 9 minutes is none, one that did for 11 is."""
    labels = '{instance="node", vhost="/", queue="orders"}'
    summary = "queue orders in vhost / on node has held its producers for 10 minutes"
    description = (
        "`penstock flow` lists who is held; `penstock flow why CONNECTION` leads to the consumer that does not ack."
    )
    alert = {
        "exp_labels": {"severity": "warning", "instance": "node", "vhost": "/", "queue": "orders"},
        "exp_annotations": {"summary": summary, "description": description},
    }
    name = "PenstockQueueHoldsProducers"
    test = {
        "interval": "1m",
        "input_series": [{"series": f"penstock_queue_saturated{labels}", "values": "0 1x12 0x5"}],
        "alert_rule_test": [
            {"eval_time": "9m", "alertname": name, "exp_alerts": []},
            {"eval_time": "12m", "alertname": name, "exp_alerts": [alert]},
            {"eval_time": "15m", "alertname": name, "exp_alerts": []},
        ],
    }
    file = tmp_path / "tests.json"
    file.write_text(json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": [test]}))
    promtool("test", "rules", file)
