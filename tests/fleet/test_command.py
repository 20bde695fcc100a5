"""Options of `namesrv-stream fleet`."""

import click
import pytest

from namesrv_stream.fleet.command import ChurnType
from namesrv_stream.fleet.plan import Churn


@pytest.mark.parametrize(
    ("text", "kind", "per_minute"),
    [("crash", Churn.CRASH, 1), ("create-topic=0.5", Churn.CREATE_TOPIC, 0.5), ("move=12", Churn.MOVE, 12)],
)
def test_churn_has_a_kind_and_a_rate_a_minute(text, kind, per_minute):
    assert ChurnType().convert(text, None, None) == (kind, per_minute)


@pytest.mark.parametrize(
    "text", ["", "crush", "crash=", "crash=0", "crash=-1", "crash=often", "crash=inf", "crash=nan"]
)
def test_other_churn_is_a_usage_error(text):
    with pytest.raises(click.UsageError):
        ChurnType().convert(text, None, None)
