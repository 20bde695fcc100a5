"""Options of `namesrv-stream fleet`, and what is refused before a Kafka is started."""

import re
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import click
import pytest
from click.testing import CliRunner

from namesrv_stream.cli import fleet
from namesrv_stream.cli.entry import main
from namesrv_stream.cli.fleet import churn
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.schemas import ROUTE_TABLES
from namesrv_stream.tools.fleet.broker import ChurnKind
from namesrv_stream.tools.fleet.history import Chronicle, chronicle_plan
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


def test_a_history_is_a_registry_of_its_own_whose_tables_agree_with_its_changes(tmp_path):
    out = tmp_path / "history"
    result = CliRunner().invoke(main, f"fleet --history 0.5 --seed 3 --out {out}".split())
    assert result.exit_code == 0, result.output
    registry = Registry(out).newest()
    assert registry.snapshot.epoch > 12
    assert len(registry.live) == chronicle_plan(3).brokers
    assert [registry.drift(spec) for spec in ROUTE_TABLES if spec.name not in ("live", "namesrv_config")] == [[]] * 6
    assert list(tmp_path.iterdir()) == [out]


def test_a_history_that_is_interrupted_says_how_far_it_came_and_leaves_nothing(tmp_path, monkeypatch):
    def records(chronicle):
        for number, record in enumerate(of_all(chronicle)):
            if number == 5_000:
                raise KeyboardInterrupt
            yield record

    of_all = Chronicle.records
    monkeypatch.setattr(Chronicle, "records", records)
    result = CliRunner().invoke(main, f"fleet --history 1 --seed 3 --out {tmp_path / 'history'}".split())
    assert result.exit_code == 1
    assert re.search(r"stopped after 4,680 records, snapshot \d+, up to 20.* Nothing of it is left in", result.stderr)
    assert list(tmp_path.iterdir()) == []


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
