"""All tables change together, whatever dies, races or compacts in between. By delta-rs, which needs no JVM."""

from contextlib import suppress
from threading import Barrier

import pytest

from namesrv_stream.errors import TermLostError
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.publication import Batch, KafkaLog, Publisher
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.schemas import BROKER_EVENT, LIVE, TABLES, TOPIC
from namesrv_stream.tables.snapshots import SnapshotTable
from namesrv_stream.tables.writer import CommitTag, RowChanges, RustWriter
from tests.tables.batches import WRITTEN, Died, assert_shows_exactly, batch, batches_shown, claim, dies_at, run_together
from tests.tables.rows import NOW, T0, event, live


@pytest.mark.parametrize(
    ("point", "is_compacted"),
    [("written topic", False), ("written broker_event", False), ("written broker_event", True)],
)
def test_half_a_batch_is_never_read_and_is_restored_by_the_next_run(root, point, is_compacted):
    claim(root).publish(batch(0), NOW)
    dying = claim(root, on_point=dies_at(point))
    with pytest.raises(Died):
        dying.publish(batch(1), NOW)
    assert_shows_exactly(root, 0)
    if is_compacted:
        root.open(BROKER_EVENT).optimize.compact()
    heir = claim(root)
    assert set(heir.restored) == {*WRITTEN, "row_change"}
    assert_shows_exactly(root, 0)
    heir.publish(batch(1), NOW)
    assert_shows_exactly(root, 0, 1)


def test_a_batch_that_was_named_before_its_run_died_is_known_to_the_next_run(root):
    dying = claim(root, on_point=dies_at("published"))
    with pytest.raises(Died):
        dying.publish(batch(0), NOW)
    heir = claim(root)
    assert heir.restored == []
    assert (heir.last.query_id, heir.last.batch_id, heir.last.offsets) == ("query", 0, batch(0).offsets)
    assert_shows_exactly(root, 0)


def test_the_same_run_can_publish_a_batch_again_after_it_failed_half_way(root):
    points = []

    def fails_once(point):
        points.append(point)
        if points.count("written live") == 1 and point == "written live":
            raise OSError("storage went away")

    publisher = claim(root, on_point=fails_once)
    with pytest.raises(OSError, match="storage"):
        publisher.publish(batch(0), NOW)
    publisher.publish(batch(0), NOW)
    assert_shows_exactly(root, 0)


def test_a_snapshot_names_our_own_tagged_versions_also_where_a_merge_had_no_effect(root):
    publisher = claim(root)
    first = publisher.publish(batch(0), NOW)
    gone = {"topic": RowChanges(deletes=[("absent", "broker-a")]), "live": RowChanges([live("new")])}
    second = publisher.publish(Batch("query", 1, T0, {0: 1}, gone), NOW)
    assert second.versions["topic"] == first.versions["topic"]
    assert second.versions["live"] == first.versions["live"] + 1
    assert second.changes == {"topic": 1, "live": 1}
    tags = [RustWriter(root).commits(spec, 0)[0].user_metadata for spec in (TOPIC, LIVE)]
    assert tags == [CommitTag(each.epoch, each.term).to_json() for each in (first, second)]


def test_a_run_stops_before_it_writes_once_another_has_claimed_the_registry(root):
    first = claim(root, "first")
    claim(root, "second")
    with pytest.raises(TermLostError) as lost:
        first.publish(batch(0), NOW)
    assert (lost.value.newer_term, lost.value.newer_run_id) == (2, "second")
    assert all(RustWriter(root).head(TABLES[name]) == 0 for name in WRITTEN)


def test_rows_that_a_run_wrote_while_it_lost_its_term_are_restored_by_the_winner(root):
    winners = []

    def loses_term(point):
        if point == "written topic":
            winners.append(claim(root, "winner"))

    loser = claim(root, "loser", on_point=loses_term)
    with pytest.raises(TermLostError):
        loser.publish(batch(0), NOW)
    winners[0].publish(batch(1), NOW)
    assert_shows_exactly(root, 1)


class LooksWithAnother(RustWriter):
    """Both runs have seen the same newest snapshot before either goes on. The first look only makes tables."""

    def __init__(self, root, both_looked):
        super().__init__(root)
        self.both_looked = both_looked
        self.looks = 0

    def newest_snapshot(self):
        seen = super().newest_snapshot()
        self.looks += 1
        if self.looks == 2:
            self.both_looked.wait(30)
        return seen


def test_of_two_claims_on_the_same_row_one_wins(root):
    claim(root)
    both_looked = Barrier(2)
    outcomes = []

    def race(run_id):
        writers = LooksWithAnother(root, both_looked)
        try:
            outcomes.append(Publisher.claim(writers, run_id, NOW).last.run_id)
        except TermLostError as lost:
            outcomes.append(lost.newer_run_id)

    run_together(lambda: race("a"), lambda: race("b"))
    newest = SnapshotTable(root).newest()
    assert outcomes == [newest.run_id] * 2
    assert newest.term == 2


@pytest.mark.full
def test_two_runs_raced_on_one_root_leave_no_snapshot_with_rows_of_both(root):
    """Both publish as fast as they can and claim again when they lose; each names its rows after its own claim."""
    claim(root)
    published = []

    def run(name):
        for number in range(6):
            with suppress(TermLostError):
                publisher = claim(root, f"{name}-{number}")
                for step in range(3):
                    mine = 1000 * (1 + number) + 100 * step + ord(name)
                    publisher.publish(batch(mine, query_id=name), NOW)
                    published.append(f"batch-{mine}")

    run_together(lambda: run("a"), lambda: run("b"))
    reader = Registry(root)
    snapshots = reader.read(lambda snapshots: snapshots.readable())
    assert [row.epoch for row in snapshots] == list(range(len(snapshots), 0, -1))
    for row in snapshots:
        shown = batches_shown(reader.at(row.epoch), root)
        assert len({frozenset(names) for names in shown.values()}) == 1, row
    assert batches_shown(reader.newest(), root)["topic"] == set(published)


def test_compaction_before_a_claim_stays(root):
    first = claim(root)
    for number in range(3):
        first.publish(batch(number), NOW)
    root.open(BROKER_EVENT).optimize.compact()
    heir = claim(root)
    assert heir.restored == []
    assert heir.versions["broker_event"] == first.versions["broker_event"] + 1
    heir.publish(batch(3), NOW)
    assert_shows_exactly(root, 0, 1, 2, 3)


def test_a_foreign_change_of_rows_is_undone_by_the_next_write(root):
    publisher = claim(root)
    publisher.publish(batch(0), NOW)
    root.open(TOPIC).delete("topic = 'batch-0'")
    publisher.publish(batch(1), NOW)
    assert publisher.restored == ["topic"]
    assert_shows_exactly(root, 0, 1)


def test_events_are_numbered_within_their_epoch(root):
    publisher = claim(root)
    publisher.publish(Batch("query", 0, T0, {0: 1}, {}, events=[event("a"), event("b")]), NOW)
    publisher.publish(Batch("query", 1, T0, {0: 2}, {}, events=[event("c")]), NOW)
    rows = rows_from_arrow(BROKER_EVENT, publisher.table("broker_event"))
    assert sorted((row.epoch, row.seq, row.broker_addr) for row in rows) == [(2, 0, "a"), (2, 1, "b"), (3, 0, "c")]


def test_a_claim_takes_over_the_values_of_the_row_before(root):
    published = claim(root, "first").publish(batch(7), NOW)
    heir = claim(root, "second").last
    assert heir == published._replace(epoch=3, term=2, run_id="second", changes={}, kind="CLAIM")


def test_e9_a_log_that_is_accepted_again_before_it_was_read_counts_from_the_same_time(root):
    claim(root).publish(batch(7), NOW)
    new_log = KafkaLog(is_new=True)
    claims = [Publisher.claim(RustWriter(root), f"run-{n}", NOW, log_of=lambda _former: new_log) for n in range(2)]
    assert [each.last.log_accepted_at for each in claims] == [T0 + 7] * 2
