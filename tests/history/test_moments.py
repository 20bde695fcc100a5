"""Sessions of the history, a reader and the views as of a moment name the same brokers that were up then."""

from datetime import UTC, datetime

from namesrv_stream.history.analysis import ask
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshot_reader import RouteReader
from tests.fleet.test_chronicle import chronicle
from tests.history.by_rules import publish_by_rules
from tests.tables.rows import NOW

HOUR_MS = 3_600_000


def test_who_was_up_between_the_epochs_of_a_fleets_history(tmp_path):
    root = Root(str(tmp_path / "registry"))
    records = list(chronicle(seed=3, days=1).records())
    publish_by_rules(records, root, NOW, HOUR_MS, [])
    sessions = ask(root, "SELECT broker_name, broker_id, epoch_ms(from_time), epoch_ms(to_time) FROM broker_session")
    spans = list(zip(*(column.to_pylist() for column in sessions.columns), strict=True))
    reader, found = RouteReader(root), []
    first_ms, last_ms = records[0][0], records[-1][0]
    for number in range(1, 13):
        at_ms = first_ms + (last_ms - first_ms) * number // 13
        up = {(name, i) for name, i, from_ms, to_ms in spans if from_ms <= at_ms and (to_ms is None or to_ms > at_ms)}
        routes = reader.open(at_ms=at_ms).routes
        assert {(name, i) for name, holders in routes.brokers.items() for i in holders} == up
        rows = ask(root, "SELECT count(*) AS n FROM broker", at=datetime.fromtimestamp(at_ms / 1000, UTC))
        assert rows["n"].to_pylist() == [len(up)]
        found.append(len(up))
    assert len(set(found)) > 1
