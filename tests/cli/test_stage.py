"""The demos' stage, on existing tables: what it runs, and what it leaves alone."""

import click
import pytest
from click.testing import CliRunner

from namesrv_stream.cli.entry import main
from namesrv_stream.cli.on_this_machine import Stage
from namesrv_stream.cli.output import console
from namesrv_stream.config import Invocation
from namesrv_stream.errors import NamesrvError
from namesrv_stream.questions.subject import NotFoundError
from namesrv_stream.tools.local.stack import LocalStack


@pytest.fixture
def stage(registry, tmp_path):
    registry.register("10.0.0.1:10911", "c1", "broker-a")
    own = Invocation(None, {"delta.root": registry.root}, {})
    return Stage(own, LocalStack(own.settings, tmp_path), console())


def test_an_answer_comes_from_the_command_above_it(stage, capsys):
    stage.run("topicRoute", "-t", "TopicA")
    command, *answer = capsys.readouterr().out.splitlines()
    assert "topicRoute -t TopicA" in command
    assert any("broker-a" in line for line in answer)


@pytest.mark.parametrize(
    ("line", "error"),
    [("topicRoute -t Nowhere", NotFoundError), ("topicRoute --nonsense", click.UsageError)],
)
def test_a_command_that_fails_fails_the_story(stage, line, error):
    with pytest.raises(error):
        stage.run(*line.split())


def test_a_status_that_is_not_0_fails_the_story(stage, monkeypatch):
    failing = click.Command("status", callback=lambda: click.get_current_context().exit(3))
    monkeypatch.setattr(main, "get_command", lambda _context, _name: failing)
    with pytest.raises(NamesrvError, match=r"status` ended with status 3"):
        stage.run("status")


@pytest.mark.parametrize("demo", ["demo", "demo-rocketmq"])
@pytest.mark.parametrize("given", [["--root", "r"], ["--set", "listenPort=1"], ["-c", "file"]])
def test_a_demo_refuses_settings(tmp_path, demo, given):
    result = CliRunner().invoke(main, [*given, demo, "--data", str(tmp_path / "data")])
    assert result.exit_code == 2
    assert "leave -c, --root and --set out" in result.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("demo", ["demo", "demo-rocketmq"])
def test_a_demo_touches_nothing_in_a_folder_of_somebody_else(tmp_path, demo):
    file = tmp_path / ".git" / "HEAD"
    file.parent.mkdir()
    file.touch()
    result = CliRunner().invoke(main, [demo, "--data", str(tmp_path)])
    assert result.exit_code == 1
    assert f"{tmp_path} is neither empty" in result.stderr
    assert sorted(tmp_path.rglob("*")) == [file.parent, file]
