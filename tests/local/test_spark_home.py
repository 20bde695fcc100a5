"""The home of Spark: where Python takes pyspark from."""

import subprocess
import sys
from pathlib import Path

import pytest

from namesrv_stream.tools.local import submission as module
from namesrv_stream.tools.local.jars import pyspark_folder
from namesrv_stream.tools.local.submission import spark_home


@pytest.fixture(autouse=True)
def jars(monkeypatch, tmp_path):
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(module, "JARS", tmp_path / "jars")
    return tmp_path / "jars"


def test_local_workers_find_no_copy_of_pyspark_that_python_would_compile_in_each_process(jars):
    home = spark_home(is_local=True)
    assert home.parent == jars
    assert (home / "bin" / "spark-submit").samefile(pyspark_folder() / "bin" / "spark-submit")
    assert (home / "jars").samefile(pyspark_folder() / "jars")
    assert not list(home.rglob("*.zip"))
    assert spark_home(is_local=True) == home  # whose links are there already


@pytest.mark.parametrize("is_local", [True, False])
def test_a_home_of_the_users_own_counts(is_local, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert spark_home(is_local=is_local) == Path("/opt/spark")


def test_a_folder_that_cannot_be_written_leaves_pysparks_own(jars):
    jars.touch()
    assert spark_home(is_local=True) == pyspark_folder()


@pytest.mark.system
def test_the_driver_has_the_pyspark_that_pip_has_compiled(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import pyspark\nprint('from', pyspark.__file__)\n")
    home = spark_home(is_local=True)
    environment = {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "PATH": "/usr/bin:/bin"}
    command = [home / "bin" / "spark-submit", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["from", str(pyspark_folder() / "__init__.py")], done.stderr
