"""The Helm chart: Kubernetes accepts what it renders, the settings are right, and pods have no needless rights."""

import re

import kubernetes_validate
import pytest
import yaml

from namesrv_stream import __version__
from namesrv_stream.config import load_settings
from tests.data import data
from tests.deploy.chart import (
    CHART,
    KUBERNETES,
    PROJECT,
    VALUE_SETS,
    command_lines,
    helm,
    one,
    pods,
    rendered,
    spark_pods,
    template,
)
from tests.deploy.commands import options_problem, settings_of

pytestmark = pytest.mark.deploy

REFUSED = data(__file__, "values_refused.yaml")
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
    own = list(pods(objects))
    assert own
    assert {pod["automountServiceAccountToken"] for pod in own} == {False}  # a driver of Spark needs its token
    for pod in [*own, *spark_pods(objects)]:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"] is True
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert {"/tmp", "/var/lib/namesrv"} <= {mount["mountPath"] for mount in container["volumeMounts"]}


def test_every_mount_has_a_volume_and_every_selector_finds_pods(objects):
    for pod in [*pods(objects), *spark_pods(objects)]:
        volumes = {volume["name"] for volume in pod["volumes"]}
        assert {mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]} == volumes
    labels = [o["spec"]["template"]["metadata"]["labels"] for o in objects if o["kind"] == "Deployment"]
    for each in objects:
        if each["kind"] in ("Service", "PodDisruptionBudget"):
            selector = each["spec"]["selector"]
            wanted = selector.get("matchLabels", selector).items()
            assert sum(wanted <= of_pod.items() for of_pod in labels) == 1, each["metadata"]["name"]


@pytest.mark.parametrize("kind", ["deployment", "sparkApplication"])
def test_a_job_has_the_grace_period_the_place_and_the_environment_of_its_values(tmp_path, kind):
    job = {"kind": kind, "terminationGracePeriodSeconds": 90, "nodeSelector": {"disk": "ssd"}}
    job["tolerations"] = [{"operator": "Exists"}]
    objects = rendered(VALUE_SETS["spark-operator"] | {"job": VALUE_SETS["spark-operator"]["job"] | job}, tmp_path)
    deployed = [each for each in objects if (each["kind"], each["metadata"]["name"]) == ("Deployment", "namesrv-job")]
    found = [*spark_pods(objects), *pods(deployed)]
    assert found[0]["terminationGracePeriodSeconds"] == 90
    for pod in found:
        assert (pod["nodeSelector"], pod["tolerations"]) == (job["nodeSelector"], job["tolerations"])
        assert pod["containers"][0]["envFrom"] == [{"secretRef": {"name": "namesrv-secrets"}}]


@pytest.mark.parametrize("create", [True, False])
def test_the_driver_of_a_spark_application_may_make_its_executors_and_no_other_part_may(tmp_path, create):
    values = VALUE_SETS["spark-operator"] | {"serviceAccount": {"create": create, "name": "given"}}
    objects = rendered(values, tmp_path)
    [driver, _executor] = spark_pods(objects)
    [role] = [each for each in objects if each["kind"] == "Role"]
    [binding] = [each for each in objects if each["kind"] == "RoleBinding"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [each["name"] for each in binding["subjects"]] == [driver["serviceAccount"]] == ["given"]
    assert {"pods", "services", "configmaps"} <= set(role["rules"][0]["resources"])
    accounts = [each["automountServiceAccountToken"] for each in objects if each["kind"] == "ServiceAccount"]
    assert accounts == [True] * create
    assert {"Role", "RoleBinding"}.isdisjoint(each["kind"] for each in rendered({}, tmp_path))


MONITORS = {"ServiceMonitor", "PodMonitor"}


def endpoints(monitor):
    return monitor["spec"].get("endpoints") or monitor["spec"]["podMetricsEndpoints"]


def label(endpoint, name):
    """The value that the relabelings of an endpoint give to a label, whatever its source labels are."""
    [last] = [each for each in endpoint["relabelings"] if each["targetLabel"] == name]
    assert last.keys() == {"targetLabel", "replacement"}
    return last["replacement"]


@pytest.mark.parametrize("kind", ["deployment", "sparkApplication"])
def test_monitors_name_their_targets_as_alerts_and_dashboards_ask_whatever_the_release_is_called(tmp_path, kind):
    job = VALUE_SETS["spark-operator"]["job"] | {"kind": kind}
    values = VALUE_SETS["spark-operator"] | {"job": job, "console": {"enabled": True}}
    found = [each for each in rendered(values, tmp_path, "another-release") if each["kind"] in MONITORS]
    jobs = {label(endpoint, "job") for monitor in found for endpoint in endpoints(monitor)}
    assert jobs == {"namesrv-console", "namesrv-gateway", "namesrv-job"}
    assert {label(endpoint, "registry") for each in found for endpoint in endpoints(each)} == {"another-release"}
    files = [PROJECT / "deploy/prometheus/alerts.yml", *(PROJECT / "deploy/grafana").glob("*.json")]
    found_in = [re.findall(r'job=[~]?\\?"([^"\\]+)', file.read_text()) for file in files]
    asked = {name for names in found_in for each in names for name in each.split("|")}
    assert asked
    assert asked <= jobs


def test_every_monitor_finds_what_listens_at_its_port(objects):
    services = [each for each in objects if each["kind"] == "Service"]
    targets = {
        "ServiceMonitor": [(each["metadata"]["labels"], each["spec"]["ports"]) for each in services],
        "PodMonitor": [
            (template["metadata"]["labels"], template["spec"]["containers"][0].get("ports", ()))
            for template in (each["spec"]["template"] for each in objects if each["kind"] == "Deployment")
        ]
        + [(driver["labels"], driver.get("ports", ())) for driver in list(spark_pods(objects))[:1]],
    }
    for monitor in objects:
        if monitor["kind"] in MONITORS:
            wanted = monitor["spec"]["selector"]["matchLabels"].items()
            found = [ports for labels, ports in targets[monitor["kind"]] if wanted <= labels.items()]
            assert len(found) == 1, monitor["metadata"]["name"]
            assert {each["port"] for each in endpoints(monitor)} <= {port["name"] for port in found[0]}


def test_a_gateway_is_ready_by_its_snapshot_and_leaves_the_service_before_it_stops(tmp_path):
    gateway = one(rendered({}, tmp_path), "Deployment", "namesrv-gateway")
    [container] = gateway["spec"]["template"]["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    alive = {container[probe]["httpGet"]["path"] for probe in ("livenessProbe", "startupProbe")}
    assert alive == {"/healthz"}  # a process that was stopped still accepts connections
    assert int(container["lifecycle"]["preStop"]["exec"]["command"][1]) < 10
    assert gateway["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_the_job_has_probes_and_leaves_its_node_one_at_a_time(tmp_path):
    objects = rendered({}, tmp_path)
    job = one(objects, "Deployment", "namesrv-job")
    [container] = job["spec"]["template"]["spec"]["containers"]
    paths = [container[probe]["httpGet"]["path"] for probe in ("readinessProbe", "livenessProbe", "startupProbe")]
    assert paths == ["/readyz", "/healthz", "/healthz"]
    assert {o["metadata"]["name"] for o in objects if o["kind"] == "PodDisruptionBudget"} == {
        "namesrv-gateway", "namesrv-job",
    }  # fmt: skip
    spread = job["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert [each["topologyKey"] for each in spread] == ["kubernetes.io/hostname"]


def test_the_public_service_has_no_metrics_and_lets_in_whom_the_values_name(tmp_path):
    gateway = {
        "serviceType": "LoadBalancer",
        "serviceAnnotations": {"a/b": "c"},
        "loadBalancerSourceRanges": ["10.0.0.0/8"],
    }
    service = one(rendered({"gateway": gateway}, tmp_path), "Service", "namesrv-gateway")
    assert [port["name"] for port in service["spec"]["ports"]] == ["remoting"]
    assert service["spec"]["loadBalancerSourceRanges"] == ["10.0.0.0/8"]
    assert service["metadata"]["annotations"] == {"a/b": "c"}


def test_all_pods_have_the_place_the_volumes_the_trust_and_resources_of_the_values(tmp_path):
    values = VALUE_SETS["extras"] | VALUE_SETS["everywhere"]
    for pod in pods(rendered(values, tmp_path)):
        assert (pod["nodeSelector"], pod["tolerations"]) == ({"disk": "one"}, [{"operator": "Exists"}])
        assert {"trust", "more"} <= {volume["name"] for volume in pod["volumes"]}
        [container] = pod["containers"]
        assert {"/etc/namesrv-trust", "/more"} <= {mount["mountPath"] for mount in container["volumeMounts"]}
        assert container["resources"]["limits"]["memory"]


def test_network_policies_let_in_the_peers_of_the_values_at_the_parts_ports(tmp_path):
    objects = rendered(VALUE_SETS["extras"] | VALUE_SETS["everywhere"], tmp_path)
    policies = {o["metadata"]["name"]: o["spec"]["ingress"] for o in objects if o["kind"] == "NetworkPolicy"}
    clients, monitoring = ([{"podSelector": {"matchLabels": {"role": role}}}] for role in ("client", "monitor"))
    assert policies == {
        "namesrv-gateway": [
            {"ports": [{"port": "remoting"}], "from": clients},
            {"ports": [{"port": "metrics"}], "from": monitoring},
        ],
        "namesrv-job": [{"ports": [{"port": "metrics"}], "from": monitoring}],
        "namesrv-console": [{"ports": [{"port": "http"}]}],
        "namesrv-maintenance": [],
        "namesrv-backup": [],
    }


@pytest.mark.parametrize(("names", "values"), [(name, each) for name, many in REFUSED.items() for each in many])
def test_wrong_values_are_refused_by_name(tmp_path, names, values):
    done = template(values, tmp_path)
    assert done.returncode != 0
    assert names in done.stderr
