"""The Helm chart: Kubernetes accepts what it renders, the settings are right, and pods have no needless rights."""

import re

import kubernetes_validate
import pytest
import yaml

from namesrv_stream import __version__
from namesrv_stream.config import load_settings
from tests.deploy.chart import CHART, KUBERNETES, VALUE_SETS, command_lines, helm, pods, rendered, template
from tests.deploy.commands import options_problem, settings_of

pytestmark = pytest.mark.deploy

OF_OPERATORS = {"SparkApplication", "ServiceMonitor", "PodMonitor"}
"""Kinds whose schemas are not Kubernetes' own."""


@pytest.fixture(params=VALUE_SETS)
def objects(request, tmp_path):
    return rendered(VALUE_SETS[request.param], tmp_path)


def test_the_chart_has_the_version_of_the_package():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_lint_has_nothing_to_say(tmp_path):
    done = helm("lint", "--strict", CHART)
    assert done.returncode == 0, done.stdout


def test_every_object_meets_the_schema_of_kubernetes(objects):
    for each in objects:
        if each["kind"] not in OF_OPERATORS:
            kubernetes_validate.validate(each, KUBERNETES, strict=True)


def test_names_and_kinds_are_there_once(objects):
    names = [(each["kind"], each["metadata"]["name"]) for each in objects]
    assert len(set(names)) == len(names)


def test_the_settings_are_accepted_with_those_of_each_command_line(objects, tmp_path):
    [text] = [each["data"]["namesrv.properties"] for each in objects if each["kind"] == "ConfigMap"]
    file = tmp_path / "namesrv.properties"
    file.write_text(text)
    for command in command_lines(objects):
        given = {key: value for key, value in settings_of(command).items() if not key.startswith("tls.")}
        settings = load_settings(file, options=given)
        assert settings.delta_root == re.search("^delta.root=(.*)$", text, re.MULTILINE)[1]


def test_every_command_line_is_accepted_by_the_program(objects):
    lines = list(command_lines(objects))
    assert lines
    assert [problem for line in lines if (problem := options_problem(line))] == []


def test_pods_run_as_a_user_without_rights_on_a_file_system_that_is_read_only(objects):
    found = list(pods(objects))
    assert found
    for pod in found:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"] is True
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert {"/tmp", "/var/lib/namesrv"} <= {mount["mountPath"] for mount in container["volumeMounts"]}


def test_every_mount_has_a_volume_and_every_selector_finds_pods(objects):
    for pod in pods(objects):
        volumes = {volume["name"] for volume in pod["volumes"]}
        assert {mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]} == volumes
    labels = [o["spec"]["template"]["metadata"]["labels"] for o in objects if o["kind"] == "Deployment"]
    for each in objects:
        if each["kind"] in ("Service", "PodDisruptionBudget"):
            selector = each["spec"]["selector"]
            wanted = selector.get("matchLabels", selector).items()
            assert sum(wanted <= of_pod.items() for of_pod in labels) == 1, each["metadata"]["name"]


def test_a_gateway_is_ready_by_its_snapshot_and_leaves_the_service_before_it_stops(tmp_path):
    [gateway] = [
        o for o in rendered({}, tmp_path) if o["metadata"]["name"] == "namesrv-gateway" and o["kind"] == "Deployment"
    ]
    [container] = gateway["spec"]["template"]["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert int(container["lifecycle"]["preStop"]["exec"]["command"][1]) < 10
    assert gateway["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ({"gatway": {}}, "gatway"),
        ({"gateway": {"replicas": 0}}, "replicas"),
        ({"gateway": {"port": "9876"}}, "port"),
        ({"job": {"kind": "statefulset"}}, "kind"),
        ({"storage": {"kind": "s3"}}, "root"),
        ({"storage": {"kind": "pvc", "root": "/data"}}, "root"),
        ({"settings": {"kafka.ssl.key.password": "x"}}, "kafka.ssl.key.password"),
        ({"maintenance": {"schedule": "daily"}}, "schedule"),
        ({"backup": {"enabled": True}}, "backup.claim"),
        ({"storage": {"kind": "s3", "root": "s3a://b/r"}, "job": {"kind": "sparkApplication"}}, "checkpoint"),
    ],
)
def test_wrong_values_are_refused_by_name(tmp_path, values, names):
    done = template(values, tmp_path)
    assert done.returncode != 0
    assert names in done.stderr
