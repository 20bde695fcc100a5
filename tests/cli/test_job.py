"""Options and progress that the programs of jobs/ share."""

import io
import re
import threading
from contextlib import redirect_stderr

import click
import pytest
from click.testing import CliRunner

from namesrv_stream.cli.job import progress, settings_options


class Lines(io.StringIO):
    """Text that counts its lines."""

    def __init__(self):
        super().__init__()
        self.has_two = threading.Event()

    def write(self, text):
        written = super().write(text)
        if self.getvalue().count("\n") >= 2:
            self.has_two.set()
        return written


def test_a_long_program_prints_its_step_again_and_again_until_it_ends():
    said = Lines()
    with redirect_stderr(said), progress("maintain_tables", every_s=0.01) as shown:
        shown.step = "table topic"
        assert said.has_two.wait(30)
    assert re.fullmatch(r"maintain_tables: table topic, \d+ s after the start", said.getvalue().splitlines()[-1])
    assert "progress" not in {each.name for each in threading.enumerate()}


@click.command()
@settings_options
def program(invocation):
    click.echo(f"{invocation.settings.delta_root} {invocation.settings.snapshot_retention.days}")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--root", "/r", "--set", "snapshot.retention=7d"], "/r 7"),
        (["-s", "delta.root=/r", "-s", "snapshot.retention=48h"], "/r 2"),
        (["-s", "delta.root=/other", "--root", "/r", "-s", "snapshot.retention=1d"], "/r 1"),
    ],
)
def test_settings_are_given_by_root_and_set(options, said):
    assert CliRunner().invoke(program, options).stdout == f"{said}\n"


def test_a_setting_without_a_value_is_refused():
    done = CliRunner().invoke(program, ["--set", "delta.root"])
    assert (done.exit_code, "delta.root is no KEY=VALUE" in done.output) == (2, True)
