"""Sessions that maintenance keeps are those of the lines: the views show the same with the table and without it."""

import pytest

from namesrv_stream.history import analysis, session_keeping
from namesrv_stream.history.analysis import ask
from namesrv_stream.history.session_keeping import keep_past_sessions
from namesrv_stream.history.views import history_sql, past_sessions, register_views
from namesrv_stream.tables.root import Root, is_there, query
from namesrv_stream.tables.schemas import BROKER_EVENT, PAST_SESSION
from namesrv_stream.tables.snapshots import Snapshots
from namesrv_stream.tables.writer import RustWriter
from tests.history.fleet import RandomHistory
from tests.history.seeded import DAY_MS, MINUTE_MS
from tests.tables.rows import NOW

pytestmark = pytest.mark.spark

START_MS = (NOW // DAY_MS - 40) * DAY_MS  # so that a month ends in the history
SESSIONS = "SELECT * FROM broker_session ORDER BY ALL"


@pytest.fixture
def root(tmp_path):
    return Root(str(tmp_path / "registry"))


@pytest.fixture
def keep(spark, root, monkeypatch):
    """A function that keeps the sessions of however few lines."""
    monkeypatch.setattr(session_keeping, "LEAST_LINES", 1)
    return lambda: keep_past_sessions(spark, root)


@pytest.fixture
def shown(root):
    """A function that returns the sessions of an epoch as analysts see them, in DuckDB: Spark shows the same."""
    return lambda epoch=None: ask(root, SESSIONS, epoch).to_pylist()


@pytest.fixture
def computed(shown):
    """A function that returns them as the lines alone give them."""

    def computed(epoch=None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(analysis, "past_sessions", lambda _root, _snapshot: None)
            return shown(epoch)

    return computed


def live_on(history, steps, gap_ms=7 * 37 * MINUTE_MS):
    for _ in range(steps):
        history.step(gap_ms)
    return history.publish()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 8))])
def test_sessions_are_the_same_whenever_some_of_them_were_kept(root, keep, shown, computed, seed):
    history = RandomHistory(root, seed, START_MS, NOW)
    live_on(history, 50)
    assert keep() > 0
    before = live_on(history, 3)
    keep()
    last = live_on(history, 60)
    newest = Snapshots(root).find(last)
    first_since = f"SELECT min(event_month) AS month FROM rows WHERE epoch > {before}"
    [since] = query(root.open(BROKER_EVENT, newest.versions["broker_event"]), first_since).to_pylist()
    assert past_sessions(root, newest)[1:] == (before, since["month"])
    found = shown()
    assert found == computed()
    assert any(row["back_at"] is not None for row in found)
    assert any(row["first_addr"] != row["last_addr"] for row in found)


def test_an_epoch_before_the_one_to_which_sessions_were_kept_is_shown_by_its_lines(root, keep, shown, computed):
    history = RandomHistory(root, 3, START_MS, NOW)
    before = live_on(history, 40)
    wanted = computed()
    live_on(history, 40)
    keep()
    assert past_sessions(root, Snapshots(root).find(before)) is None
    assert shown(before) == wanted


def test_a_run_that_dies_leaves_nothing_that_counts_and_the_next_one_goes_on(root, keep, shown, computed, monkeypatch):
    history = RandomHistory(root, 4, START_MS, NOW)
    live_on(history, 40)
    keep()
    live_on(history, 60)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="no space"):
        patch.setattr(RustWriter, "replace", fail)
        keep()
    assert shown() == computed()
    newest = live_on(history, 20)
    keep()
    left = query(root.open(PAST_SESSION), "SELECT DISTINCT as_of_epoch FROM rows ORDER BY as_of_epoch")
    assert left["as_of_epoch"].to_pylist() == [newest - 2, newest]


def test_of_two_runs_at_once_the_one_that_began_first_gives_way(root, keep, shown, computed, monkeypatch):
    history = RandomHistory(root, 8, START_MS, NOW)
    live_on(history, 60)
    written = []

    def registered_after_another_run(*arguments, **keywords):
        monkeypatch.setattr(session_keeping, "register_views", register_views)
        written.append(keep())
        register_views(*arguments, **keywords)

    monkeypatch.setattr(session_keeping, "register_views", registered_after_another_run)
    assert keep() == 0
    assert written[0] > 0
    assert shown() == computed()


def fail(*_arguments):
    raise OSError("no space left on device")


@pytest.mark.full
def test_statements_for_a_plain_spark_sql_show_the_same(spark, root, keep, computed):
    history = RandomHistory(root, 5, START_MS, NOW)
    live_on(history, 40)
    keep()
    live_on(history, 30)
    register_views(spark, root, only=["broker_session"])
    wanted = spark.sql(SESSIONS).collect()
    assert len(wanted) == len(computed())
    session = spark.newSession()
    for statement in history_sql(root, Snapshots(root).newest()):
        session.sql(statement)
    assert session.sql(SESSIONS).collect() == wanted


def test_an_empty_and_a_short_history_have_no_such_table(root, keep, monkeypatch):
    history = RandomHistory(root, 7, START_MS, NOW)
    history.publish()
    assert keep() == 0
    live_on(history, 30)
    monkeypatch.setattr(session_keeping, "LEAST_LINES", 100_000)
    assert keep() == 0
    assert not is_there(root, PAST_SESSION)
