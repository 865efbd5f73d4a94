"""The manifests for Kubernetes, as kubectl and Helm make them of the files in `deploy`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PLAIN = ROOT / "deploy" / "kubernetes"
CHART = ROOT / "deploy" / "helm" / "penstock"
COMPONENTS = ("network-policy", "tls", "service-monitor")

Document: TypeAlias = dict[str, Any]


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program of the test's set-up. The test is skipped if it is not installed."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    program = shutil.which(command[0], path=path)
    if program is None:
        pytest.skip(f"{command[0]} is not installed")
    return subprocess.run([program, *command[1:]], capture_output=True, text=True, check=False)


def documents(text: str) -> list[Document]:
    """Return the documents in a YAML stream."""
    return [document for document in yaml.safe_load_all(text) if document]


def kustomized(directory: Path, components: Sequence[str]) -> list[Document]:
    """Return what kubectl applies with these components; `directory` gets a copy of the files."""
    copy = directory / "kubernetes"
    shutil.copytree(PLAIN, copy)
    (copy / "kustomization.yaml").write_text(yaml.dump({"resources": ["base"], "components": list(components)}))
    done = run("kubectl", "kustomize", copy)
    assert done.returncode == 0, done.stderr
    return documents(done.stdout)


def rendered(*values: str, release: str = "penstock") -> list[Document]:
    """Return what Helm installs with these values, as in `user.password=secret`."""
    options = [part for value in values for part in ("--set", value)]
    done = run("helm", "template", release, CHART, *options)
    assert done.returncode == 0, done.stderr
    return documents(done.stdout)


def of_kind(found: list[Document], kind: str) -> list[Document]:
    """Return the documents of a kind."""
    return [document for document in found if document["kind"] == kind]


def base() -> list[Document]:
    """Return the documents in the files of the base, without what kustomize adds."""
    files = (path for path in sorted((PLAIN / "base").glob("*.yaml")) if path.name != "kustomization.yaml")
    return [document for path in files for document in documents(path.read_text())]


def pod(found: list[Document]) -> Document:
    """Return the specification of the pod."""
    (workload,) = of_kind(found, "StatefulSet")
    return workload["spec"]["template"]["spec"]


def container(found: list[Document]) -> Document:
    """Return the container of the node."""
    (one,) = pod(found)["containers"]
    return one
