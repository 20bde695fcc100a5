"""`submit`: the command line of spark-submit that it becomes."""

import os

import pytest
from click.testing import CliRunner

from namesrv_stream.cli.entry import main


class BecameError(BaseException):  # no error that the command line would report
    """The process would have become this command."""


@pytest.fixture
def became(monkeypatch):
    """Returns what `submit` becomes: the words after spark-submit's own options, and all of them."""

    def become(_path, command, _environment):
        raise BecameError(command)

    monkeypatch.setattr(os, "execve", become)

    def run(*words):
        with pytest.raises(BecameError) as became:
            CliRunner().invoke(main, ["--debug", *words])
        (command,) = became.value.args
        program = next(at for at, word in enumerate(command) if word.endswith(".py"))
        return command[program:], command[:program]

    return run


def test_options_before_and_after_the_name_and_those_of_the_program_reach_the_program(became, tmp_path):
    file, root = tmp_path / "my.properties", tmp_path / "data"
    file.touch()
    own = ("--root", str(root), "--set", "kafka.client.rack=b=c", "-stickMillis=8")
    words, _ = became("-c", str(file), "submit", "--standby", *own)
    assert words[0].endswith("/jobs/route_registry.py")
    given = " ".join(words[1:])
    settings = f"-c {file} --set delta.root={root} --set kafka.client.rack=b=c --set tickMillis=8"
    assert given == f"{settings} --debug --standby"
    assert [each.name for each in tmp_path.iterdir() if each.is_dir()] == ["data-checkpoint-tmp"]


def test_a_temporary_folder_that_cannot_be_made_is_named_by_its_setting():
    result = CliRunner().invoke(main, ["submit", "--set", "job.tempFolder=/proc/none"])
    assert (result.exit_code, "job.tempFolder" in result.stderr) == (1, True), result.output


def test_options_of_spark_stay_sparks(became):
    words, spark = became("submit", "--program", "maintain_tables", "--master", "local[2]", "--conf", "spark.ui.port=1",
                          "--py-files", "a.zip", "--root", "here")  # fmt: skip
    assert words[0].endswith("/jobs/maintain_tables.py")
    assert words[1:] == ["--set", "delta.root=here"]  # --debug is not among its options
    assert spark[0].endswith("/bin/spark-submit")
    assert {"spark.master=local[2]", "spark.ui.port=1", "spark.submit.pyFiles=a.zip"} <= set(spark)


def test_executors_may_fetch_tokens_from_the_endpoint(became):
    given = {"mechanism": "OAUTHBEARER", "oauthbearer.token.endpoint.url": "https://id/token"}
    words = (word for key, text in given.items() for word in ("--set", f"kafka.sasl.{key}={text}"))
    _, spark = became("submit", *words)
    allowed = '"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=https://id/token"'
    assert f"spark.executor.defaultJavaOptions={allowed}" in spark
