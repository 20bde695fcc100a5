"""The log decides (E1), through micro-batches into real tables: a checkpoint ahead of them, behind them, or lost.

Real Delta, no Spark and no Kafka: the log is a list, and its records reach the driver as Spark brings them.
"""

import tempfile
from enum import Enum

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from chaos.oracle import Oracle, contents, without_place
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.job.micro_batch import MicroBatches
from namesrv_stream.kafka.record_reader import StoredRecord
from namesrv_stream.records import encode_record, record_key
from namesrv_stream.rules.record_types import PutKvConfig, Scan, UpdateNamesrvConfig
from namesrv_stream.tables.arrow import rows_from_arrow, topic_bucket
from namesrv_stream.tables.publication import POINTS, Publisher
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import BROKER_EVENT, REJECTED, ROUTE_TABLES
from namesrv_stream.tables.writer import RustWriter
from tests.build import address, registration
from tests.job.batches_run import as_table
from tests.random_logs import T0, logs

SETTINGS = NamesrvSettings()
NO_SHRINKING = [Phase.explicit, Phase.reuse, Phase.generate]  # each example makes ten tables


class ListedLog:
    """A log in memory, read by offset as a RecordReader reads Kafka's."""

    def __init__(self, records):
        self.records = records

    def at(self, offsets):
        yield from (self.records[offset] for offset in offsets)

    def between(self, start, end):
        yield from self.records[start:end]


class Life(Enum):
    """The job's fate after a micro-batch, unless it dies at a point before."""

    GOES_ON = "goes on"
    STOPS = "stops in order, and another starts"
    KILLED_BEFORE_COMMIT = "is killed before Spark has committed the batch: Spark reads it again"
    KILLED = "is killed after that: what was not worth an epoch is not in the tables, and Spark does not read it again"
    CHECKPOINT_LOST = "is killed, and its checkpoint is gone"
    CHECKPOINT_OF_THE_START = "is killed, and its checkpoint is one from a backup"


class DiedError(Exception):
    """The run ended at a point of its publication."""


class Job:
    """Successive runs of the job on the tables at `root`, with `committed`, the offset at which Spark goes on."""

    def __init__(self, root, log):
        self._root = Root(root)
        self._log = log
        self._dies_at = None
        self.died_at = set()
        self._start()
        self._committed = 0

    def _start(self):
        writers = RustWriter(self._root)
        try:
            publisher = Publisher.claim(writers, "run", 1, on_point=self._on_point)
        except DiedError:
            self._dies_at = None  # the next run does not
            publisher = Publisher.claim(writers, "run", 1, on_point=self._on_point)
        self._publisher = publisher
        self._batches = MicroBatches(SETTINGS, publisher, ListedLog(self._log), publisher.last.offsets.get(0, 0))
        self._published = publisher.last.offsets.get(0, 0)

    def _on_point(self, point):
        if point == self._dies_at:
            self.died_at.add(point)
            raise DiedError(point)

    def handle(self, end, life, point):
        self._dies_at, has_died = point, False
        try:
            came = self._log[self._committed : end][::-1]  # Spark gives no order
            self._batches.handle(as_table(came), "query", 0)
            self._publisher.compact(max_files=1)
            if life is Life.STOPS:
                self._batches.close()
        except DiedError:
            has_died = True
        else:
            if life is not Life.KILLED_BEFORE_COMMIT:
                self._committed = end
        if has_died or life is not Life.GOES_ON:
            self._dies_at = None if has_died else point
            self._start()
        if life is Life.CHECKPOINT_LOST:
            self._committed = self._published
        elif life is Life.CHECKPOINT_OF_THE_START:
            self._committed = 0

    def close(self):
        self._dies_at = None
        self._batches.handle(as_table(self._log[self._committed :]), "query", 0)
        self._batches.close()


def check(log, lives):
    """Run the job through its lives over the log; each snapshot has to be what the rules say at its offset.

    A tick ends the log, for the last run alone: without a further record a job does not see that its checkpoint is
    ahead of the tables.
    """
    log = [*log, StoredRecord(len(log), log[-1].append_time_ms if log else T0, b"", encode_record(Scan()))]
    oracle, wanted, told = Oracle(SETTINGS), [], []
    wanted.append(oracle.contents())
    for record in log:
        oracle.apply(record)
        wanted.append(oracle.contents())
        told += oracle.take_history()
    with tempfile.TemporaryDirectory() as root:
        job = Job(root, log)
        for end, (life, point) in sorted(lives.items()):
            job.handle(min(end, len(log) - 1), life, point)
            view = Registry(root).newest()
            assert contents(view.routes) == wanted[view.snapshot.offsets.get(0, 0)]
        job.close()
        reader = Registry(root)
        last = reader.newest()
        assert last.snapshot.offsets == {0: len(log)}
        assert contents(last.routes) == wanted[-1]
        history = rows_from_arrow(BROKER_EVENT, reader.published(last.snapshot)[BROKER_EVENT.name])
        assert [without_place(line) for line in sorted(history, key=lambda line: line[:2])] == told
        assert not any(last.drift(spec) for spec in ROUTE_TABLES)
        rejected = rows_from_arrow(REJECTED, reader.published(last.snapshot)[REJECTED.name])
        assert sorted(row.offset for row in rejected) == oracle.rejected
        return job.died_at


LIVES = st.dictionaries(
    st.integers(0, 40), st.tuples(st.sampled_from(Life), st.sampled_from([None, *POINTS])), max_size=6
)


@pytest.mark.parametrize("examples", [8, pytest.param(200, marks=pytest.mark.full)])
def test_neither_cuts_nor_restarts_nor_checkpoints_change_tables_or_history(examples):
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), phases=NO_SHRINKING)
    @given(logs(), LIVES)
    def of_random_logs(log, lives):
        check(log, lives)

    of_random_logs()


NAMES_IN_ONE_BUCKET = [name for name in (f"broker-{n}" for n in range(200)) if topic_bucket(name) == "00"][:4]
"""Files of `topic` are merged within a bucket of broker names."""
LIVE_SETTINGS = ("orderMessageEnable", "supportActingMaster", "enableTopicList", "enableAllTopicList")


def everything(version):
    """Records that change all tables."""
    name = NAMES_IN_ONE_BUCKET[version - 1]
    broker = registration(
        address(version),
        cluster_name=f"c{version}",
        broker_name=name,
        topics=[f"Topic{version}"],
        topic_queue_mapping_info_map={f"Topic{version}": {"bname": name}},
        filter_server_list=[f"f:{version}"],
    )
    put = PutKvConfig(namespace="n", key=f"k{version}", value="v")
    update = UpdateNamesrvConfig(properties={LIVE_SETTINGS[version - 1]: "true"})
    requests = [(record_key(each), encode_record(each)) for each in (broker, put, update, Scan())]
    return [*requests, (b"", b"junk")]


@pytest.mark.full
@pytest.mark.parametrize("point", POINTS)
def test_a_run_that_dies_at_any_point_leaves_what_the_next_one_goes_on_from(point):
    said_all = [each for version in range(1, 5) for each in everything(version)]
    log = [StoredRecord(offset, T0 + 1_000 * offset, key, value) for offset, (key, value) in enumerate(said_all)]
    died_at = check(log, {5: (Life.GOES_ON, None), 10: (Life.GOES_ON, None), 15: (Life.KILLED, point)})
    assert died_at == {point}
