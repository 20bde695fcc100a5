"""Values that users set: large numbers, other users and groups, IPv6, a chart above this one, labels for Prometheus."""

import shutil
import subprocess

import pytest
import yaml

from tests.deploy.chart import PROJECT, pods, rendered, spark_pods
from tests.deploy.chart import VALUE_SETS as SETS

pytestmark = pytest.mark.deploy

SETTINGS = {"kafka.bootstrap.servers": "kafka:9092", "auth.mode": "off"}


@pytest.mark.parametrize("of", ["extras", "spark-operator"])
def test_null_leaves_user_and_groups_to_the_platform(tmp_path, of):
    values = SETS[of] | {"podSecurityContext": dict.fromkeys(("runAsUser", "runAsGroup", "fsGroup"))}
    objects = rendered(values, tmp_path)
    for pod in [*pods(objects), *spark_pods(objects)]:
        assert {"runAsUser", "runAsGroup", "fsGroup"}.isdisjoint(pod["securityContext"])
        assert pod["securityContext"]["runAsNonRoot"] is True


def test_monitors_and_rules_have_the_labels_by_which_a_prometheus_selects_them(tmp_path):
    labelled = {"enabled": True, "labels": {"release": "prometheus"}}
    objects = rendered(SETS["extras"] | {"serviceMonitor": labelled, "prometheusRule": labelled}, tmp_path)
    found = {each["kind"]: each for each in objects if each["metadata"]["labels"].get("release") == "prometheus"}
    assert found.keys() == {"ServiceMonitor", "PodMonitor", "PrometheusRule"}
    alerts = yaml.safe_load((PROJECT / "deploy/prometheus/alerts.yml").read_text())
    assert found["PrometheusRule"]["spec"] == alerts


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="only Linux gives a process another user")
def test_the_entry_point_gives_a_user_without_a_name_one():
    asked = "import getpass, os; print(getpass.getuser(), os.getuid(), os.getgid())"
    command = ["setpriv", "--reuid=1000670000", "--regid=0", "--clear-groups", PROJECT / "deploy/entrypoint.sh"]
    env = {"PATH": "/usr/bin:/bin", "HOME": "/tmp"}
    done = subprocess.run([*command, "python3", "-c", asked], env=env, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["namesrv", "1000670000", "0"], done.stderr
