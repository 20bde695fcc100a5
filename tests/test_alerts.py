"""Alert rules and dashboards: they ask for metrics that are exported, and each alert has a runbook entry."""

import inspect
import json
import re
import socket
import subprocess
import urllib.request

import pytest
import yaml
from prometheus_client import CollectorRegistry

from namesrv_stream.answers import health_metrics
from namesrv_stream.gateway.gateway_metrics import Metrics
from namesrv_stream.job.job_metrics import JobMetrics
from namesrv_stream.reporting.metrics_server import add_process_metrics
from namesrv_stream.tools.local.jars import CHECKOUT
from tests.clock import now_ms
from tests.console.background import BackgroundConsole, kafka_tells
from tests.console.conftest import make_settings
from tests.registry import PublishedRegistry
from tests.waiting import until

PROMETHEUS = CHECKOUT / "deploy" / "prometheus"
DASHBOARDS = sorted((CHECKOUT / "deploy" / "grafana").glob("*.json"))
RULES = [
    rule
    for group in yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]  # fmt: skip
SUFFIXES = {"counter": ["_total"], "gauge": [""], "stateset": [""], "histogram": ["_bucket", "_sum", "_count"]}
INCIDENTS = sorted((CHECKOUT / "tests" / "fixtures" / "incidents").glob("*.json"))
"""What was played once: `of` is where the series come from, `fires` all alerts that they raise."""

JVM = CollectorRegistry()
add_process_metrics(JVM, "namesrv_jvm")
EXPORTED = {
    family.name.removesuffix("_total") + suffix
    for registry in (Metrics().registry, JobMetrics().registry, JVM)
    for family in registry.collect()
    for suffix in SUFFIXES[family.type]
} | set(re.findall(r"namesrv_registry_\w+", inspect.getsource(health_metrics)))


def names_in(expression):
    """The metrics' names, without label values such as those of the scrape job."""
    return set(re.findall(r"\b(?:namesrv|process)_\w+", re.sub(r'"[^"]*"', '""', expression)))


def expressions(dashboard):
    return [target["expr"] for panel in json.loads(dashboard.read_text())["panels"] for target in panel["targets"]]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_exported_metrics_and_leads_to_its_runbook_entry(rule):
    assert names_in(rule["expr"]) <= EXPORTED
    file, anchor = rule["annotations"]["runbook_url"].split("#")
    headings = re.findall(r"^#+ (.+)$", (CHECKOUT / file).read_text(), re.MULTILINE)
    assert rule["alert"] in headings
    assert anchor == rule["alert"].lower()


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.stem)
def test_a_dashboard_asks_for_exported_metrics(dashboard):
    found = [names_in(expression) for expression in expressions(dashboard)]
    assert found
    assert set.union(*found) <= EXPORTED


def assert_promtool_accepts(*arguments, folder=PROMETHEUS):
    done = subprocess.run(["promtool", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.needs("promtool")
@pytest.mark.parametrize(
    "arguments",
    [["check", "rules", "alerts.yml"], pytest.param(["test", "rules", "alerts_test.yml"], marks=pytest.mark.full)],
)  # the second takes a minute of CPU; `make test-alerts` has both
def test_promtool_accepts_the_rules_and_each_is_raised_when_it_should(arguments):
    assert_promtool_accepts(*arguments)


@pytest.mark.needs("promtool")
@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda incident: incident.stem)
def test_an_incident_fires_these_alerts_and_no_other(incident, tmp_path):
    recorded = json.loads(incident.read_text())
    lasted = f"{recorded['seconds']}s"
    ever = f"group by (alertname) (max_over_time(ALERTS{{alertstate='firing'}}[{lasted}]))"
    samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in recorded["fires"]]
    fired = {"expr": ever, "eval_time": lasted, "exp_samples": samples}
    series = [{"series": each, "values": values} for each, values in recorded["series"].items()]
    played = {"interval": "5s", "input_series": series}
    (tmp_path / "alerts.yml").symlink_to(PROMETHEUS / "alerts.yml")
    test = {
        "rule_files": ["alerts.yml"],
        "evaluation_interval": "5s",
        "tests": [played | {"promql_expr_test": [fired]}],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump(test))
    assert_promtool_accepts("test", "rules", "test.yml", folder=tmp_path)


def test_promtool_plays_every_alert():
    played = yaml.safe_load((PROMETHEUS / "alerts_test.yml").read_text())["tests"]
    raised = {case["alertname"] for each in played for case in each["alert_rule_test"] if case["exp_alerts"]}
    assert raised == {rule["alert"] for rule in RULES}


@pytest.mark.full
@pytest.mark.needs("prometheus")
def test_a_real_prometheus_fires_for_a_broker_that_is_down_and_clears_when_it_is_back(tmp_path):
    registry = PublishedRegistry(str(tmp_path / "registry"), now_ms())
    registry.register("10.0.0.1:10911", "c1", "broker-a", topics=("T",))
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with kafka_tells(), BackgroundConsole(make_settings(registry.root, "127.0.0.1:1")) as console:
        scraped = {
            "job_name": "namesrv-console",
            "static_configs": [{"targets": [console.url.removeprefix("http://")]}],
        }
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(PROMETHEUS / "alerts.yml")],
            "scrape_configs": [scraped],
        }
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
        command = ["prometheus", "--config.file=prometheus.yml", f"--web.listen-address={address}"]
        command.append("--storage.tsdb.path=data")
        with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as prometheus:
            try:
                registry.expire("10.0.0.1:10911")
                wanted = {"NamesrvBrokerDown", "NamesrvGroupWithoutMaster", "NamesrvTopicsWithoutRoute"}
                until(lambda: wanted <= firing(address), 120)
                registry.register("10.0.0.1:10911", "c1", "broker-a", topics=("T",))
                until(lambda: not wanted & firing(address), 60)
            finally:
                prometheus.terminate()


def firing(address):
    try:
        with urllib.request.urlopen(f"http://{address}/api/v1/alerts") as answer:
            alerts = json.load(answer)["data"]["alerts"]
    except OSError:
        return set()
    return {each["labels"]["alertname"] for each in alerts if each["state"] == "firing"}
