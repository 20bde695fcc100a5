"""Options that the programs of jobs/ share."""

import click
import pytest
from click.testing import CliRunner

from namesrv_stream.cli.submitted import takes_settings


@click.command()
@takes_settings
def program(invocation):
    click.echo(f"{invocation.settings.delta_root} {invocation.settings.snapshot_exact.total_seconds():.0f}")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--root", "/r", "--set", "snapshot.exact=7s"], "/r 7"),
        (["-s", "delta.root=/r", "-s", "snapshot.exact=2m"], "/r 120"),
        (["-s", "delta.root=/other", "--root", "/r", "-s", "snapshot.exact=1h"], "/r 3600"),
    ],
)
def test_settings_are_given_by_root_and_set(options, said):
    assert CliRunner().invoke(program, options).stdout == f"{said}\n"


def test_a_setting_without_a_value_is_refused():
    done = CliRunner().invoke(program, ["--set", "delta.root"])
    assert (done.exit_code, "expected KEY=VALUE, not 'delta.root'" in done.output) == (2, True)
