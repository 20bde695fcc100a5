"""The Dockerfile and the Compose file, without a container engine: linter, schema, and command lines as processes."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import jsonschema
import pytest
import yaml

from namesrv_stream.config import load_settings
from namesrv_stream.config.loading import from_environment
from tests.deploy.chart import PROJECT
from tests.deploy.commands import options_problem

DOCKERFILE = PROJECT / "deploy" / "Dockerfile"
COMPOSE = PROJECT / "deploy" / "compose" / "compose.yaml"
SCHEMA = PROJECT / ".cache" / "deploy" / "compose-spec.json"


@pytest.fixture(scope="module")
def services():
    return yaml.safe_load(COMPOSE.read_text())["services"]


def ours(services):
    return {name: service for name, service in services.items() if name != "kafka"}


def test_the_linter_has_nothing_to_say():
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, DOCKERFILE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_what_the_dockerfile_copies_is_there_and_in_the_build_context():
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE.read_text(), re.MULTILINE)
    sources = {source for line in copied for source in line.split()}
    context = {line[1:] for line in (PROJECT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert sources == context
    assert all((PROJECT / source).exists() for source in sources)


def by_entrypoint(*arguments, **env):
    path = f"{env.pop('first_on_path', '')}{Path(sys.executable).parent}:{os.environ['PATH']}"
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    return subprocess.run(
        [PROJECT / "deploy" / "entrypoint.sh", *arguments],
        capture_output=True, text=True, check=False, cwd=PROJECT, env=inherited | env | {"PATH": path}, timeout=300,
    )  # fmt: skip


def test_the_entry_point_of_the_image_runs_any_command_as_it_is():
    done = by_entrypoint("python", "-c", "import sys; print(sys.argv[1:]); sys.exit(3)", "a b", "$c")
    assert (done.returncode, done.stdout) == (3, "['a b', '$c']\n")


@pytest.mark.full
def test_the_driver_of_a_spark_application_has_its_own_settings_over_those_of_the_image(tmp_path):
    """The arguments are those that Spark gives the container of a driver."""
    file = tmp_path / "spark.properties"
    file.write_text("spark.master=local[1]\nspark.sql.shuffle.partitions=7\n")
    program = f"local://{PROJECT}/tests/deploy/shown_conf.py"
    runner = ("--class", "org.apache.spark.deploy.PythonRunner")
    done = by_entrypoint("driver", "--properties-file", file, *runner, program, SPARK_DRIVER_BIND_ADDRESS="127.0.0.1")
    assert done.returncode == 0, done.stderr
    shown = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert shown["spark.sql.shuffle.partitions"] == "7"
    assert shown["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"
    assert shown["spark.driver.bindAddress"] == "127.0.0.1"
    assert "jars/spark/" in shown["spark.jars"]


def test_an_executor_of_a_spark_application_is_started_with_what_spark_put_into_its_environment(tmp_path):
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    java.chmod(0o755)
    given = {
        "driver-url": "spark://CoarseGrainedScheduler@driver:7078",
        "executor-id": "1",
        "cores": "2",
        "app-id": "spark-1",
        "hostname": "10.0.0.7",
        "resourceProfileId": "0",
        "podName": "registry-exec-1",
    }
    names = ["DRIVER_URL", "EXECUTOR_ID", "EXECUTOR_CORES", "APPLICATION_ID", "EXECUTOR_POD_IP", "RESOURCE_PROFILE_ID",
             "EXECUTOR_POD_NAME"]  # fmt: skip
    env = {f"SPARK_{name}": value for name, value in zip(names, given.values(), strict=True)}
    options = {f"SPARK_JAVA_OPT_{n}": f"-Dnumber{n}=a b" for n in range(12)}
    done = by_entrypoint("executor", **env, **options, SPARK_EXECUTOR_MEMORY="1g", first_on_path=f"{tmp_path}:")
    *of_java, _class_path, path, backend = done.stdout.splitlines()[: len(options) + 5]
    assert of_java == [*options.values(), "-Xms1g", "-Xmx1g"], done.stderr
    assert done.stdout.splitlines()[len(options) + 5 :] == [part for k, v in given.items() for part in (f"--{k}", v)]
    jars = Path(path.split(":")[1]).parent
    [of_kubernetes] = jars.glob("spark-kubernetes_*.jar")
    assert f"{backend.replace('.', '/')}.class" in zipfile.ZipFile(of_kubernetes).namelist()


def test_the_lock_of_the_image_has_the_versions_of_the_other_lock_and_no_tools_of_development():
    def pins(name):
        return dict(re.findall(r"^([a-z0-9-]+)(?:\[[^]]*\])?==([^ ;\\]+)", (PROJECT / name).read_text(), re.MULTILINE))

    image, all_ = pins("requirements-image.lock"), pins("requirements.lock")
    assert image.items() <= all_.items()
    assert {"pyspark", "deltalake", "msgspec"} <= image.keys()
    assert not {"pytest", "ruff", "mypy", "mkdocs-material"} & image.keys()


@pytest.mark.deploy
def test_compose_meets_its_schema():
    assert SCHEMA.exists(), f"{SCHEMA} is not there: make test-deploy fetches it"
    jsonschema.validate(yaml.safe_load(COMPOSE.read_text()), json.loads(SCHEMA.read_text()))


@pytest.mark.full
def test_every_command_line_of_compose_is_accepted_by_the_program(services):
    lines = [service["command"] for service in ours(services).values()]
    assert [problem for line in lines if (problem := options_problem(line))] == []


def test_the_settings_of_compose_are_accepted(services):
    for service in ours(services).values():
        found = from_environment(service["environment"])
        assert len(found) == len(service["environment"])
        assert load_settings(environ=service["environment"]).kafka_bootstrap_servers == "kafka:9092"


def test_containers_have_no_rights_they_do_not_need_and_listen_on_loopback(services):
    for service in ours(services).values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
    published = [port for service in services.values() for port in service.get("ports", ())]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)
