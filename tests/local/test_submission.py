"""Command lines that run the programs of jobs/ by spark-submit from any folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from namesrv_stream.tools.local import submission as driver
from namesrv_stream.tools.local.jars import CONF, retrieved_jars
from namesrv_stream.tools.local.submission import PROGRAMS, submission


@pytest.fixture(autouse=True)
def no_spark_settings(monkeypatch, tmp_path):
    for name in ("SPARK_CONF_DIR", "SPARK_HOME", "SPARK_LOCAL_IP", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(driver, "ARCHIVE", tmp_path / "my jars" / "job.jsa")


def conf_of(command):
    """Return what --conf gives, by key."""
    pairs = [command[at + 1] for at, word in enumerate(command) if word == "--conf"]
    return dict(pair.split("=", 1) for pair in pairs)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_is_found_with_its_settings_and_jars_in_whatever_folder_the_user_is(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command, _ = submission(program, ["--standby"])
    assert command[-2:] == [str(CONF.parent / "jobs" / f"{program}.py"), "--standby"]
    assert (CONF.parent / "jobs" / f"{program}.py").is_file()
    assert command[command.index("--properties-file") + 1] == str(CONF / "spark-defaults.conf")
    jars = conf_of(command)["spark.driver.extraClassPath"].split(":")
    assert set(map(str, retrieved_jars("spark").glob("*.jar"))) <= set(jars)
    assert conf_of(command)["spark.jars"] == ""  # in place of the folder that conf/ names


def test_java_uses_an_archive_that_is_there_and_none_while_it_records_one(tmp_path):
    def java_options(**options):
        return conf_of(submission("route_registry", [], **options).command)["spark.driver.defaultJavaOptions"]

    assert "Archive" not in java_options()
    driver.ARCHIVE.parent.mkdir()
    driver.ARCHIVE.touch()
    assert f'"-XX:SharedArchiveFile={driver.ARCHIVE}"' in java_options()  # Spark's parser takes the quotes away
    recording = java_options(records_archive=tmp_path / "new.jsa")
    assert f'"-XX:ArchiveClassesAtExit={tmp_path / "new.jsa"}"' in recording
    assert "SharedArchiveFile" not in recording


def test_executors_of_a_cluster_get_the_jars():
    found = conf_of(submission("route_registry", [], spark_options={"spark.master": "spark://h:7077"}).command)
    assert set(map(str, retrieved_jars("spark").glob("*.jar"))) <= set(found["spark.jars"].split(","))


def test_options_of_the_user_win_and_his_java_options_and_jars_stay():
    given = {
        "spark.jars": "mine.jar",
        "spark.driver.extraClassPath": "own.jar",
        "spark.driver.defaultJavaOptions": "-Dmine=1",
        "spark.ui.enabled": "false",
    }
    found = conf_of(submission("route_registry", [], spark_options=given).command)
    assert (found["spark.jars"], found["spark.ui.enabled"]) == ("mine.jar", "false")
    assert found["spark.driver.defaultJavaOptions"].startswith("-Dmine=1 ")
    assert "log4j2" in found["spark.driver.defaultJavaOptions"]
    assert found["spark.driver.extraClassPath"].startswith("own.jar:")
    assert given["spark.jars"] == "mine.jar"


def test_the_settings_of_a_folder_of_the_users_own_count(monkeypatch, tmp_path):
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.master spark://h:7077\n"
        "spark.jars mine.jar\n"
        "spark.driver.extraClassPath own.jar\n"
        "spark.driver.defaultJavaOptions -Dmine=1\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    command, environment = submission("route_registry", [])
    assert command[command.index("--properties-file") + 1] == str(tmp_path / "spark-defaults.conf")
    found = conf_of(command)
    assert found["spark.jars"] == "mine.jar"
    assert found["spark.driver.extraClassPath"].startswith("own.jar:")
    assert found["spark.driver.defaultJavaOptions"].startswith("-Dmine=1 ")
    assert "PYSPARK_PYTHON" not in environment
    assert str(CONF / "log4j2.properties") in conf_of(command)["spark.driver.defaultJavaOptions"]  # it has none


@pytest.mark.parametrize(("master", "is_ours"), [(None, True), ("local[2]", True), ("spark://h:7077", False)])
def test_workers_of_this_machine_have_this_python_and_those_of_a_cluster_their_own(master, is_ours):
    options = {} if master is None else {"spark.master": master}
    environment = submission("route_registry", [], spark_options=options).environment
    assert environment["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert environment.get("PYSPARK_PYTHON") == (sys.executable if is_ours else None)


def test_a_driver_has_a_temporary_folder_of_its_own_and_what_a_dead_one_left_goes(tmp_path):
    program = (
        "import os, sys, pathlib\n"
        "from namesrv_stream.tools.local.submission import own_temp_folder\n"
        f"print(own_temp_folder(pathlib.Path({str(tmp_path)!r})), flush=True)\n"
        "os.execvp('cat', ['cat'])\n"  # as `submit` becomes Java
    )

    def started():
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return process, Path(process.stdout.readline().strip())

    (lives, its), (killed, left) = started(), started()
    (left / "librocksdbjni.so").touch()
    killed.kill()
    killed.communicate()
    (tmp_path / "run-that-died-before-it-had-its-lock").mkdir()
    found = conf_of(submission("route_registry", [], temp=tmp_path).command)["spark.driver.defaultJavaOptions"]
    own = Path(re.search('"-Djava.io.tmpdir=(.*?)"', found)[1])
    assert {each.name for each in tmp_path.glob("run-*")} == {its.name, own.name}
    lives.communicate()


@pytest.mark.parametrize(
    ("given", "java"), [({"LC_ALL": "C"}, "C.UTF-8"), ({"LC_ALL": "C.UTF-8"}, None), ({"LC_ALL": "POSIX"}, "C.UTF-8")]
)
def test_java_encodes_names_as_this_python_does(given, java):
    program = "from namesrv_stream.tools.local.submission import names_in_utf8; print(names_in_utf8().get('LC_ALL'))"
    said = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **given}, capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == str(java)
