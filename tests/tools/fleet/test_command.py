"""Options of `namesrv-stream fleet`, and what is refused before a Kafka is started."""

from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import click
import pytest
from click.testing import CliRunner

from namesrv_stream.cli import fleet
from namesrv_stream.cli.entry import main
from namesrv_stream.cli.fleet import churn
from namesrv_stream.tools.fleet.broker import ChurnKind
from namesrv_stream.tools.fleet.history import chronicle_plan
from tests.data import data

CASES = data(__file__, "options.yaml")


@pytest.mark.parametrize(("text", "kind", "per_minute"), CASES["churn has a kind and a rate a minute"])
def test_churn_has_a_kind_and_a_rate_a_minute(text, kind, per_minute):
    assert churn(text) == (ChurnKind(kind), per_minute)


@pytest.mark.parametrize("text", CASES["other churn is a usage error"])
def test_other_churn_is_a_usage_error(text):
    with pytest.raises(click.UsageError):
        churn(text)


@pytest.mark.parametrize(("options", "folder"), [("", "data/history"), (" --out elsewhere", "elsewhere")])
def test_a_folder_in_use_is_left_alone(monkeypatch, tmp_path, options, folder):
    monkeypatch.chdir(tmp_path)
    Path(folder).mkdir(parents=True)
    Path(folder, "something").touch()
    result = CliRunner().invoke(main, f"fleet --history 1 --seed 3{options}".split())
    assert (result.exit_code, list(Path(folder).iterdir())) == (1, [Path(folder, "something")])
    assert f"{folder} is not empty. Give a new folder" in result.stderr


@pytest.mark.parametrize(
    ("options", "named"), [(each, named) for named, refused in CASES["refused"].items() for each in refused]
)
def test_a_number_out_of_its_bounds_or_a_history_with_options_of_the_present_is_refused(options, named):
    result = CliRunner().invoke(main, ["fleet", *options.split()])
    assert (result.exit_code, named in result.stderr) == (2, True)


def test_help_names_the_default_fleet_of_a_history():
    text = " ".join(CliRunner().invoke(main, ["fleet", "--help"]).stdout.split())
    plan = chronicle_plan(0)
    assert f"Default: --brokers {plan.brokers}, --clusters {plan.clusters}, --zones {plan.zones}." in text


@pytest.mark.usefixtures("quickly_away")
def test_a_fleet_with_a_duration_gives_a_kafka_up_that_is_away(nobody):
    result = CliRunner().invoke(main, ["fleet", "--duration", "0.1", "--bootstrap-server", nobody])
    assert (result.exit_code, "cannot reach Kafka" in result.stderr) == (1, True)


@pytest.mark.parametrize("ends_by", [KeyboardInterrupt, BrokenPipeError])
def test_brokers_are_unregistered_although_whoever_read_the_output_has_gone(monkeypatch, ends_by):
    playing = Mock(wait=Mock(side_effect=ends_by))
    monkeypatch.setattr(fleet, "Fleet", lambda *_: playing)
    monkeypatch.setattr(fleet, "_producer", lambda *_: nullcontext())
    monkeypatch.setattr("click.echo", Mock(side_effect=BrokenPipeError))
    monkeypatch.setattr("signal.signal", Mock())
    CliRunner().invoke(main, ["fleet", "--no-ticks"])
    playing.stop.assert_called_once_with(unregister=True, limit_s=10.0)
