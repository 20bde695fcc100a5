"""The demos' stage, on existing tables: what it runs, and what it leaves alone."""

import click
import pytest
from click.testing import CliRunner

from namesrv_stream.answers.model import NotFoundError
from namesrv_stream.cli.entry import main
from namesrv_stream.cli.on_this_machine import Stage
from namesrv_stream.cli.output import console
from namesrv_stream.config import Invocation
from namesrv_stream.errors import NamesrvError
from namesrv_stream.tools.local.stack import LocalStack


@pytest.fixture
def stage(registry, tmp_path):
    registry.register("10.0.0.1:10911", "c1", "broker-a")
    own = Invocation(None, {"delta.root": registry.root}, {})
    return Stage(own, LocalStack(own.settings, tmp_path), console())


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
def test_a_demo_refuses_settings_and_the_folder_of_somebody_else(tmp_path, demo):
    (tmp_path / "notes").touch()
    for given in (["--root", "r"], ["--set", "listenPort=1"], ["-c", "file"]):
        result = CliRunner().invoke(main, [*given, demo, "--data", str(tmp_path / "data")])
        assert (result.exit_code, "Leave out -c, --root and --set" in result.stderr) == (2, True)
    result = CliRunner().invoke(main, [demo, "--data", str(tmp_path)])
    assert (result.exit_code, f"{tmp_path} is not empty, and this command did not make it" in result.stderr) == (
        1,
        True,
    )
    assert [file.name for file in tmp_path.iterdir()] == ["notes"]


def test_ctrl_c_ends_a_demo_and_names_the_tables(tmp_path, monkeypatch):
    def interrupted(_stack):
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalStack, "__enter__", interrupted)
    result = CliRunner().invoke(main, ["demo", "--data", str(tmp_path / "data")])
    assert (result.exit_code, f"tables so far are in {tmp_path}/data/registry.\n" in result.stderr) == (130, True)
