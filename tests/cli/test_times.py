from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from namesrv_stream.answers.causes import clock_text
from namesrv_stream.answers.subject import parsed_time
from namesrv_stream.cli.output import time_text
from namesrv_stream.reporting.texts import SHOWN_ZONE

NOW = datetime(2026, 11, 21, 3, 12, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-20 23:00", datetime(2026, 11, 20, 23, tzinfo=UTC)),
        ("2026-11-20T23:00:01.5Z", datetime.fromisoformat("2026-11-20T23:00:01.5+00:00")),
        ("2026-11-20T23:00+08:00", datetime.fromisoformat("2026-11-20T23:00+08:00")),
        ("2026-11-20", datetime(2026, 11, 20, tzinfo=UTC)),
        ("03:12", datetime(2026, 11, 21, 3, 12, tzinfo=UTC)),
        ("03:12:05", NOW),
        ("03:12:06", (NOW + timedelta(seconds=1, milliseconds=999)).replace(day=20)),
        ("2026-11-20 23:00:01", datetime(2026, 11, 20, 23, 0, 1, 999_000, UTC)),
        ("23:59", datetime(2026, 11, 20, 23, 59, tzinfo=UTC)),
        ("10m", NOW - timedelta(minutes=10)),
        ("2h ago", NOW - timedelta(hours=2)),
        ("1d 2h ago", NOW - timedelta(days=1, hours=2)),
        ("1d2h", NOW - timedelta(days=1, hours=2)),
        (" 1d ago ", NOW - timedelta(days=1)),
        ("90 s", NOW - timedelta(seconds=90)),
        ("now", NOW),
        (" Now ", NOW),
    ],
)
def test_moment_is_read_as_people_write_it(text, moment):
    assert parsed_time(text, NOW) == moment


@pytest.mark.parametrize(
    "text", ["", "soon", "1d and 2h", "99999999d", "25:00", "2026-13-01", "5", "10 minutes", "ago", "-5m", "03.12"]
)
def test_a_text_that_is_no_time_is_an_error_that_names_what_is(text):
    with pytest.raises(ValueError, match="2026-11-21 03:12"):
        parsed_time(text, NOW)


@pytest.mark.parametrize(
    ("now", "text", "moment"),
    [
        ("2026-10-25T10:00+01:00", "23:30", "2026-10-24T23:30+02:00"),
        ("2026-10-25T02:45+02:00", "02:30", "2026-10-25T02:30+02:00"),
        ("2026-10-25T02:45+01:00", "02:30", "2026-10-25T02:30+01:00"),
        ("2026-10-25T02:15+01:00", "02:30", "2026-10-25T02:30+02:00"),
        ("2026-10-25T10:00+01:00", "2026-10-25 02:30", "2026-10-25T02:30+01:00"),
        ("2026-10-25T02:45+02:00", "2026-10-25 02:30", "2026-10-25T02:30+02:00"),
        ("2026-03-29T10:00+02:00", "02:30", "2026-03-28T02:30+01:00"),
        ("2026-03-30T02:00+02:00", "02:30", "2026-03-28T02:30+01:00"),
        ("2026-03-29T10:00+02:00", "03:30", "2026-03-29T03:30+02:00"),
        ("2026-11-21T10:00+01:00", "2026-07-01", "2026-07-01T00:00+02:00"),
        ("2026-11-21T00:30+09:00", "00:15+09:00", "2026-11-21T00:15+09:00"),
        ("2026-11-21T00:30+09:00", "00:45+09:00", "2026-11-20T00:45+09:00"),
    ],
)
def test_around_a_change_of_the_clocks_a_time_is_the_latest_one_that_the_clock_has_shown(now, text, moment):
    assert parsed_time(text, datetime.fromisoformat(now), ZoneInfo("Europe/Berlin")) == datetime.fromisoformat(moment)


@pytest.mark.parametrize("text", ["2026-10-25 02:00", "02:00"])
@pytest.mark.parametrize(("is_begin", "moment"), [(True, "02:00+02:00"), (False, "02:00+01:00")])
def test_a_span_begins_at_the_first_and_ends_at_the_last_of_two_equal_times(text, is_begin, moment):
    now, berlin = datetime.fromisoformat("2026-10-25T10:00+01:00"), ZoneInfo("Europe/Berlin")
    assert parsed_time(text, now, berlin, is_begin=is_begin) == datetime.fromisoformat(f"2026-10-25T{moment}")


@pytest.mark.parametrize(
    ("moment", "shown"),
    [
        ("2026-10-25T00:30+00:00", "2026-10-25 02:30:00 CEST"),
        ("2026-10-25T01:30+00:00", "2026-10-25 02:30:00 CET"),
        ("2026-10-26T01:30+00:00", "2026-10-26 02:30:00"),
    ],
)
def test_times_of_a_day_on_which_the_clocks_change_have_their_zone(moment, shown):
    token = SHOWN_ZONE.set(ZoneInfo("Europe/Berlin"))
    assert time_text(moment) == shown
    at_ms = round(datetime.fromisoformat(moment).timestamp() * 1_000)
    assert clock_text(at_ms, at_ms).split()[1] == datetime.fromtimestamp(at_ms / 1_000, SHOWN_ZONE.get()).tzname()
    SHOWN_ZONE.reset(token)
