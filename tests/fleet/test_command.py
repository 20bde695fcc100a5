"""Options of `namesrv-stream fleet`."""

import click
import pytest
from click.testing import CliRunner

from namesrv_stream.cli.entry import main
from namesrv_stream.cli.fleet import churn
from namesrv_stream.tools.fleet.plan import Churn


@pytest.mark.parametrize(
    ("text", "kind", "per_minute"),
    [("crash", Churn.CRASH, 1), ("create-topic=0.5", Churn.CREATE_TOPIC, 0.5), ("move=12", Churn.MOVE, 12)],
)
def test_churn_has_a_kind_and_a_rate_a_minute(text, kind, per_minute):
    assert churn(text) == (kind, per_minute)


@pytest.mark.parametrize(
    "text", ["", "crush", "crash=", "crash=0", "crash=-1", "crash=often", "crash=inf", "crash=nan"]
)
def test_other_churn_is_a_usage_error(text):
    with pytest.raises(click.UsageError):
        churn(text)


def test_a_history_is_not_published_among_other_things(tmp_path):
    (tmp_path / "notes.txt").touch()
    result = CliRunner().invoke(main, ["fleet", "--history", "1", "--out", str(tmp_path)])
    assert result.exit_code == 1
    assert f"{tmp_path} is not empty. Name a new folder" in result.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]
