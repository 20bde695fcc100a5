"""The rendered chart for the value sets that the tests use."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.data import data

PROJECT = Path(__file__).resolve().parents[2]
CHART = PROJECT / "deploy" / "helm" / "namesrv-stream"
HELM = PROJECT / ".cache" / "deploy" / "helm"
KUBERNETES = "1.34"

VALUE_SETS: dict[str, dict[str, Any]] = data(__file__, "values.yaml")


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run helm, which `make test-deploy` has built."""
    assert HELM.exists(), f"{HELM} is not there: make test-deploy builds it"
    return subprocess.run([HELM, *arguments], capture_output=True, text=True, check=False)


def template(values: dict[str, Any], folder: Path, release: str = "namesrv") -> subprocess.CompletedProcess[str]:
    """Render the chart with these values as a release of that name."""
    file = folder / "values.json"
    file.write_text(json.dumps(values))
    return helm("template", release, CHART, "--values", file, "--kube-version", f"{KUBERNETES}.0")


def rendered(values: dict[str, Any], folder: Path, release: str = "namesrv") -> list[dict[str, Any]]:
    """Return the objects that the chart renders."""
    done = template(values, folder, release)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def one(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """Return the object of this kind and name."""
    [found] = [each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def pods(objects: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the pod specs of Deployments and CronJobs."""
    for each in objects:
        match each["kind"]:
            case "Deployment":
                yield each["spec"]["template"]["spec"]
            case "CronJob":
                yield each["spec"]["jobTemplate"]["spec"]["template"]["spec"]


def spark_pods(objects: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the drivers and executors of SparkApplications, in the form of pod specs."""
    for each in objects:
        if each["kind"] == "SparkApplication":
            for part in (each["spec"]["driver"], each["spec"]["executor"]):
                yield {
                    **part,
                    "securityContext": part.get("podSecurityContext", {}),
                    "containers": [part],
                    "volumes": each["spec"]["volumes"],
                }


def command_lines(objects: list[dict[str, Any]]) -> Iterator[list[str]]:
    """Yield the command line of each container, of the driver too."""
    for pod in pods(objects):
        for container in pod["containers"]:
            yield container["args"]
    for each in objects:
        if each["kind"] == "SparkApplication":
            program = each["spec"]["mainApplicationFile"].removeprefix("local:///opt/namesrv-stream/")
            yield ["spark-submit", program, *each["spec"]["arguments"]]
