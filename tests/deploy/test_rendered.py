"""The manifests as kubectl and Helm make them: valid by the schemas of Kubernetes, and the same for the same wishes."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from penstock.settings.sources import load_settings
from tests.deploy.manifests import (
    CHART,
    COMPONENTS,
    Document,
    container,
    kustomized,
    of_kind,
    pod,
    rendered,
    run,
)

pytestmark = pytest.mark.slow

VERSIONS = ("1.27", "1.37")
"""The oldest Kubernetes that the chart accepts, and a new one."""
OTHERS = {"ServiceMonitor"}
"""Kinds that Kubernetes does not know by itself."""
PASSWORD = "user.password=p4ssw0rd"
TLS, POLICY, MONITOR = "tls.secretName=penstock-tls", "networkPolicy.enabled=true", "serviceMonitor.enabled=true"
LABELS = {"app.kubernetes.io/name": "penstock", "app.kubernetes.io/instance": "penstock"}


def check(found: list[Document]) -> None:
    """Check documents by the schemas. The test is skipped if they are not installed."""
    validator = pytest.importorskip("kubernetes_validate")
    for document in found:
        for version in VERSIONS if document["kind"] not in OTHERS else ():
            validator.validate(document, version, strict=True)


def plainly(found: list[Document]) -> dict[tuple[str, str], Any]:
    """Return what two ways to make the same objects have to agree upon, by kind and name."""
    result = {}
    for each in deepcopy(found):
        kind, name = each["kind"], each["metadata"]["name"]
        if kind == "ConfigMap":
            result[kind, "penstock"] = each["data"]
        elif kind == "StatefulSet":
            one = each["spec"]["template"]["spec"]
            one["containers"][0].pop("imagePullPolicy", None)
            one["containers"][0]["env"].sort(key=lambda variable: variable["name"])
            for listed in (one["volumes"], one["containers"][0]["volumeMounts"]):
                listed.sort(key=lambda volume: volume["name"])
            for volume in one["volumes"]:
                volume.get("configMap", {}).pop("name", None)
            (claim,) = each["spec"]["volumeClaimTemplates"]
            del each["spec"]["template"]["metadata"], claim["metadata"]
            result[kind, name] = {
                key: value for key, value in each["spec"].items() if key != "volumeClaimTemplates"
            } | {"claim": claim["spec"]}
        elif kind == "Service":
            each["spec"].setdefault("type", "ClusterIP")
            result[kind, name] = each["spec"]
        elif kind != "Secret":
            result[kind, name] = each.get("spec")
    return result


@pytest.mark.parametrize(
    ("components", "values"),
    [((), ()), (("network-policy",), (POLICY,)), (COMPONENTS, (POLICY, TLS, MONITOR))],
    ids=["base", "network policy", "all"],
)
def test_both_are_valid_and_the_same(tmp_path: Path, components: Sequence[str], values: Sequence[str]) -> None:
    plain, chart = kustomized(tmp_path, components), rendered(PASSWORD, *values)
    check(plain)
    check(chart)
    if TLS in values:
        (monitor,) = of_kind(chart, "ServiceMonitor")
        assert monitor["spec"]["endpoints"][0].pop("scheme") == "https"
    assert plainly(chart) == plainly(plain)


def test_what_is_applied_by_default_is_valid() -> None:
    done = run("kubectl", "kustomize", CHART.parents[1] / "kubernetes")
    assert done.returncode == 0, done.stderr
    assert "kind: NetworkPolicy" in done.stdout


@pytest.mark.parametrize("values", [(), (TLS, POLICY, MONITOR)], ids=["default", "all"])
def test_selectors_find_the_pod_and_nothing_else(values: Sequence[str]) -> None:
    found = rendered(PASSWORD, *values, release="shop")
    (workload,) = of_kind(found, "StatefulSet")
    labels = workload["spec"]["template"]["metadata"]["labels"]
    wanted = {**LABELS, "app.kubernetes.io/instance": "shop"}
    assert labels == workload["spec"]["selector"]["matchLabels"] == wanted
    assert all(service["spec"]["selector"] == wanted for service in of_kind(found, "Service"))
    for document in of_kind(found, "PodDisruptionBudget"):
        assert document["spec"]["selector"]["matchLabels"] == wanted
    ports = {port["name"] for port in container(found)["ports"]}
    assert all(
        port["targetPort"] in ports for service in of_kind(found, "Service") for port in service["spec"]["ports"]
    )
    volumes = {volume["name"] for volume in pod(found)["volumes"]} | {"data"}
    assert {mount["name"] for mount in container(found)["volumeMounts"]} == volumes


def test_the_password_is_in_the_secret_alone() -> None:
    secrets, others = [], []
    for document in rendered(PASSWORD, TLS, POLICY, MONITOR):
        (secrets if document["kind"] == "Secret" else others).append(document)
    assert [secret["stringData"] for secret in secrets] == [{"username": "app", "password": "p4ssw0rd"}]
    assert "p4ssw0rd" not in str(others)


def test_a_secret_that_exists_is_used() -> None:
    found = rendered("user.existingSecret=theirs")
    assert not of_kind(found, "Secret")
    (mounted,) = (volume["secret"]["secretName"] for volume in pod(found)["volumes"] if volume["name"] == "user")
    assert mounted == "theirs"
    assert {"name": "theirs", "key": "username"} in [
        variable["valueFrom"]["secretKeyRef"] for variable in container(found)["env"] if "valueFrom" in variable
    ]


def test_without_a_password_nothing_is_installed() -> None:
    done = run("helm", "template", "penstock", CHART)
    assert done.returncode == 1 and "set user.existingSecret or user.password" in done.stderr


def test_the_variables_of_tls_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in container(rendered(PASSWORD, TLS))["env"]:
        if variable["name"].startswith("PENSTOCK_"):
            monkeypatch.setenv(variable["name"], variable.get("value", "app"))
    settings = load_settings(CHART.parents[1] / "kubernetes" / "base" / "penstock.toml")
    (listener,) = settings.listeners.values()
    assert not settings.plain and (listener.host, listener.port, listener.is_tls) == ("0.0.0.0", 5671, True)
    assert settings.http.certificate is not None and settings.http.key is not None


def test_the_chart_passes_the_linter() -> None:
    done = run("helm", "lint", "--strict", "--set", PASSWORD, CHART)
    assert done.returncode == 0, done.stdout + done.stderr


def test_other_values_are_valid() -> None:
    terms = "nodeSelectorTerms[0].matchExpressions[0]"
    values = (
        *("persistence.storageClassName=fast", "persistence.size=1Ti", "podDisruptionBudget.enabled=false"),
        *("env[0].name=PENSTOCK_LOG_LEVEL", "env[0].value=debug", "podAnnotations.team=shop", "image.tag=next"),
        *(
            "tolerations[0].operator=Exists",
            "nodeSelector.disk=ssd",
            "priorityClassName=high",
            "service.type=LoadBalancer",
        ),
        *("service.annotations.a=b", "imagePullSecrets[0].name=registry", "gauges.size=256Mi"),
        f"affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.{terms}.key=zone",
        f"affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.{terms}.operator=Exists",
    )
    found = rendered(PASSWORD, *values)
    check(found)
    assert container(found)["image"] == "penstock:next"
    assert pod(found)["tolerations"] == [{"operator": "Exists"}] and not of_kind(found, "PodDisruptionBudget")
