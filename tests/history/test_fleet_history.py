"""`namesrv-stream fleet --history`: what is refused before a Kafka is started."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from namesrv_stream.cli.entry import main
from namesrv_stream.tools.fleet.chronicle import chronicle_plan


@pytest.mark.parametrize(("options", "folder"), [("", "data/history"), (" --out elsewhere", "elsewhere")])
def test_a_folder_in_use_is_left_alone(monkeypatch, tmp_path, options, folder):
    monkeypatch.chdir(tmp_path)
    Path(folder).mkdir(parents=True)
    Path(folder, "something").touch()
    result = CliRunner().invoke(main, f"fleet --history 1 --seed 3{options}".split())
    assert (result.exit_code, list(Path(folder).iterdir())) == (1, [Path(folder, "something")])
    assert f"{folder} is not empty. Name a new folder" in result.stderr


@pytest.mark.parametrize("options", ["--churn crash", "--rate 5", "--duration 10", "--no-ticks"])
def test_what_holds_for_brokers_of_the_present_alone_is_refused(options):
    result = CliRunner().invoke(main, ["fleet", "--history", "1", *options.split()])
    assert (result.exit_code, "has no effect with --history" in result.stderr) == (2, True)


@pytest.mark.parametrize("days", ["0", "-1", "week", "nan", "inf", "1e12"])
def test_what_is_no_number_of_days_is_refused(days):
    result = CliRunner().invoke(main, ["fleet", "--history", days])
    assert (result.exit_code, "--history" in result.stderr) == (2, True)


@pytest.mark.parametrize("hours", ["0", "0.0001", "nan", "inf", "1e12"])
def test_epochs_of_less_than_a_record_or_of_more_than_a_month_are_refused(hours):
    result = CliRunner().invoke(main, ["fleet", "--history", "1", "--batch-hours", hours])
    assert (result.exit_code, "--batch-hours" in result.stderr) == (2, True)


def test_help_names_the_default_fleet_of_a_history():
    text = " ".join(CliRunner().invoke(main, ["fleet", "--help"]).stdout.split())
    plan = chronicle_plan(0)
    assert f"Default: --brokers {plan.brokers}, --clusters {plan.clusters}, --zones {plan.zones}." in text
