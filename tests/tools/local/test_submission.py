"""Command lines that run the programs of jobs/ by spark-submit from any folder, and the home of Spark."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from namesrv_stream.errors import NamesrvError
from namesrv_stream.tools.local import submission as driver
from namesrv_stream.tools.local.jars import CHECKOUT, CONF, pyspark_folder, retrieved_jars
from namesrv_stream.tools.local.submission import PROGRAMS, named_login, spark_home, submission


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


@pytest.mark.parametrize("is_folder", [False, True], ids=["options", "a folder"])
def test_what_the_user_sets_wins_and_his_java_options_and_jars_stay(monkeypatch, tmp_path, is_folder):
    given = {
        "spark.master": "spark://h:7077",
        "spark.jars": "mine.jar",
        "spark.driver.extraClassPath": "own.jar",
        "spark.driver.defaultJavaOptions": "-Dmine=1",
        "spark.ui.enabled": "false",
    }
    if is_folder:
        (tmp_path / "spark-defaults.conf").write_text("".join(f"{key} {text}\n" for key, text in given.items()))
        monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    command, environment = submission("route_registry", [], spark_options={} if is_folder else given)
    properties = (tmp_path if is_folder else CONF) / "spark-defaults.conf"
    assert command[command.index("--properties-file") + 1] == str(properties)
    found = conf_of(command)
    assert found["spark.jars"] == "mine.jar"
    assert is_folder or found["spark.ui.enabled"] == "false"
    assert found["spark.driver.extraClassPath"].startswith("own.jar:")
    assert found["spark.driver.defaultJavaOptions"].startswith("-Dmine=1 ")
    assert str(CONF / "log4j2.properties") in found["spark.driver.defaultJavaOptions"]  # the folder has none
    assert "PYSPARK_PYTHON" not in environment
    assert given["spark.jars"] == "mine.jar"


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


@pytest.fixture
def jars(monkeypatch, tmp_path):
    monkeypatch.setattr(driver, "JARS", tmp_path / "jars")
    return tmp_path / "jars"


def test_local_workers_find_no_copy_of_pyspark_that_python_would_compile_in_each_process(jars):
    home = spark_home(is_local=True)
    assert home.parent == jars
    assert (home / "bin" / "spark-submit").samefile(pyspark_folder() / "bin" / "spark-submit")
    assert (home / "jars").samefile(pyspark_folder() / "jars")
    assert not list(home.rglob("*.zip"))
    assert spark_home(is_local=True) == home  # whose links are there already


@pytest.mark.usefixtures("unnamed")
def test_a_user_without_a_name_gets_one_for_java_or_is_told_what_does(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("ctypes.CDLL", lambda _name: None)
    names = Path(named_login()["NSS_WRAPPER_PASSWD"]).read_text()
    assert names == f"{os.getuid()}:x:{os.getuid()}:{os.getgid()}::{tmp_path}:\n"

    def missing(name):
        raise OSError(name)

    monkeypatch.setattr("ctypes.CDLL", missing)
    with pytest.raises(NamesrvError, match="libnss-wrapper"):
        named_login()


@pytest.mark.parametrize("is_local", [True, False])
def test_a_home_of_the_users_own_counts(is_local, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert spark_home(is_local=is_local) == Path("/opt/spark")


def test_a_folder_that_cannot_be_written_leaves_pysparks_own(jars):
    jars.touch()
    assert spark_home(is_local=True) == pyspark_folder()


@pytest.mark.system
def test_the_driver_has_the_pyspark_that_pip_has_compiled(jars, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import pyspark\nprint('from', pyspark.__file__)\n")
    home = spark_home(is_local=True)
    environment = {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "PATH": "/usr/bin:/bin"}
    command = [home / "bin" / "spark-submit", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["from", str(pyspark_folder() / "__init__.py")], done.stderr


@pytest.mark.parametrize(("given", "address"), [({}, "127.0.0.1"), ({"SPARK_LOCAL_IP": "192.0.2.7"}, "192.0.2.7")])
def test_sparks_web_page_and_driver_listen_on_the_loopback_address_unless_another_is_set(given, address):
    spark = {"SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_CONF_DIR": str(CHECKOUT / "conf")}
    environment = {"PATH": os.environ["PATH"], **spark, **given}
    program = '. "$SPARK_HOME/bin/load-spark-env.sh" >&2; env'
    done = subprocess.run(["bash", "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert f"SPARK_LOCAL_IP={address}" in done.stdout.splitlines()
