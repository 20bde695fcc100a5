from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from namesrv_stream.cli.output import time_text
from namesrv_stream.config.written_times import parsed_time
from namesrv_stream.reporting.texts import SHOWN_ZONE, clock_text
from tests.data import data

NOW = datetime(2026, 11, 21, 3, 12, 5, tzinfo=UTC)
READ = data(__file__, "times.yaml")


@pytest.mark.parametrize(
    ("zone", "now", "text", "moment"),
    [(zone, now, *each) for zone, moments in READ.items() for now, texts in moments.items() for each in texts.items()],
)
def test_moment_is_read_as_people_write_it(zone, now, text, moment):
    assert parsed_time(text, datetime.fromisoformat(now), ZoneInfo(zone)) == datetime.fromisoformat(moment)


@pytest.mark.parametrize(
    "text", ["", "soon", "1d and 2h", "99999999d", "25:00", "2026-13-01", "5", "10 minutes", "ago", "-5m", "03.12"]
)
def test_a_text_that_is_no_time_is_an_error_that_names_what_is(text):
    with pytest.raises(ValueError, match="2026-11-21 03:12"):
        parsed_time(text, NOW)


@pytest.mark.parametrize("text", ["2026-10-25 02:00", "02:00"])
@pytest.mark.parametrize(("is_begin", "moment"), [(True, "02:00+02:00"), (False, "02:00+01:00")])
def test_a_span_begins_at_the_first_and_ends_at_the_last_of_two_equal_times(text, is_begin, moment):
    now, berlin = datetime.fromisoformat("2026-10-25T10:00+01:00"), ZoneInfo("Europe/Berlin")
    assert parsed_time(text, now, berlin, is_begin=is_begin) == datetime.fromisoformat(f"2026-10-25T{moment}")


@pytest.mark.parametrize(
    ("day", "zone", "begin", "end"),
    [
        ("2026-10-25", "Europe/Berlin", "2026-10-24T22:00", "2026-10-25T22:59:59.999"),
        ("2018-11-04", "America/Sao_Paulo", "2018-11-04T03:00", "2018-11-05T01:59:59.999"),  # no midnight
        ("2018-11-03", "America/Sao_Paulo", "2018-11-03T03:00", "2018-11-04T02:59:59.999"),
    ],
)
def test_a_day_begins_and_ends_as_the_clock_of_its_zone_shows_it(day, zone, begin, end):
    found = (parsed_time(day, NOW, ZoneInfo(zone), is_begin=is_begin) for is_begin in (True, False))
    assert [each.replace(tzinfo=None) for each in found] == [datetime.fromisoformat(each) for each in (begin, end)]


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
    at_ms = round(datetime.fromisoformat(moment).timestamp() * 1_000)
    assert time_text(at_ms) == shown
    assert clock_text(at_ms).split()[-1] == datetime.fromtimestamp(at_ms / 1_000, SHOWN_ZONE.get()).tzname()
    SHOWN_ZONE.reset(token)
