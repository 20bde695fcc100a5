"""Measure a change: the time from its append to Kafka to the snapshot that shows it, beside the floor, on real parts.

    make bench            # or: .venv/bin/python -m benchmarks.publication --changes 40

The floor is the same source and the same stateful step with one Spark append to a Delta table in place of the registry.
"""

from __future__ import annotations

import logging
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from benchmarks.brokers import Brokers
from benchmarks.harness import Bench, benchmark, option, percentile, running_kafka
from namesrv_stream.config import NamesrvSettings, kafka_client_arguments
from namesrv_stream.job import query as job_query
from namesrv_stream.job.background_job import BackgroundJob
from namesrv_stream.job.source import kafka_records
from namesrv_stream.kafka.producer import HeartbeatProducer
from namesrv_stream.kafka.topic import ensure_topic
from namesrv_stream.reporting.logs import set_up_logging
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import TABLES
from namesrv_stream.tools.local.spark import local_session

TOPICS_PER_BROKER = 20
BROKERS = 100
FLEETS = (100, 300, 1_000, 3_000, 10_000)
WARM_UP = 3


class SparkSite:
    """One Kafka and one Spark session; each measurement has a topic and a folder of its own."""

    def __init__(self, spark: SparkSession, servers: str, work: Path) -> None:
        self.spark = spark
        self._servers = servers
        self._work = work

    def settings(self, name: str, **more: object) -> NamesrvSettings:
        """Return the settings of the measurement `name`; batches follow one another without a pause."""
        own = {
            "kafka.bootstrap.servers": self._servers,
            "kafka.topic": name,
            "delta.root": str(self._work / name),
            "triggerMillis": 0,
        }
        return NamesrvSettings.model_validate({**own, **more})

    @contextmanager
    def running(self, settings: NamesrvSettings, brokers: int) -> Iterator[tuple[BackgroundJob, Brokers]]:
        """Run the job within the `with`, with that many brokers registered."""
        with BackgroundJob(self.spark, settings) as job, self.producer(settings) as producer:
            fleet = Brokers(producer, brokers, TOPICS_PER_BROKER)
            fleet.register_all()
            job.process_all()
            yield job, fleet

    def producer(self, settings: NamesrvSettings) -> HeartbeatProducer:
        """Return a producer to the measurement's topic, which is created if it is missing."""
        arguments = kafka_client_arguments(settings)
        ensure_topic(arguments, settings.kafka_topic)
        return HeartbeatProducer(arguments, settings.kafka_topic)


def change_latency_ms(site: SparkSite, changes: int) -> list[int]:
    """Measure from the append to Kafka until a reader that polls every 5 ms sees the snapshot, one change at a time."""
    settings = site.settings("latency")
    with site.running(settings, BROKERS) as (job, fleet):
        reader = Registry(settings.delta_root)
        found = []
        for number in range(changes + WARM_UP):
            appended = fleet.change(number % BROKERS)
            _wait_until_published(reader, job, appended)
            found.append(time.time_ns() // 1_000_000 - appended.event_time)
        return found[WARM_UP:]


def _wait_until_published(reader: Registry, job: BackgroundJob, record: LogPosition) -> None:
    while reader.follow().snapshot.offsets.get(record.partition, 0) <= record.offset:
        job.check()
        time.sleep(0.005)


def floor_latency_ms(site: SparkSite, changes: int) -> list[int]:
    """Measure the same records through the same source and step into one Delta table by one Spark append a batch."""
    settings = site.settings("latency-floor")
    target = f"{settings.delta_root}/floor"
    committed_at_ms: list[int] = []

    def append(frame: DataFrame, _batch_id: int) -> None:
        frame.write.format("delta").mode("append").save(target)
        committed_at_ms.append(time.time_ns() // 1_000_000)

    with site.producer(settings) as producer:
        fleet = Brokers(producer, BROKERS, TOPICS_PER_BROKER)
        fleet.register_all()
        events = job_query.registry_rows(kafka_records(site.spark, settings, None))
        query = events.writeStream.foreachBatch(append).option("checkpointLocation", f"{target}-checkpoint").start()
        query.processAllAvailable()
        found = []
        for number in range(changes + WARM_UP):
            before = len(committed_at_ms)
            appended = fleet.change(number % BROKERS)
            query.processAllAvailable()
            found.append(committed_at_ms[before] - appended.event_time)
        query.stop()
        return found[WARM_UP:]


def cost_of_batches(site: SparkSite) -> dict[str, tuple[int, int, int]]:
    """Return Spark jobs, Delta commits and ms of a batch with one change, and of one with heartbeats alone."""
    settings = site.settings("cost")
    with site.running(settings, BROKERS) as (job, fleet):
        return {
            "one change": _cost(site, settings, job, lambda: fleet.change(0)),
            f"{BROKERS} heartbeats, no change": _cost(site, settings, job, fleet.heartbeat_all),
        }


def _cost(
    site: SparkSite, settings: NamesrvSettings, job: BackgroundJob, act: Callable[[], object]
) -> tuple[int, int, int]:
    job.process_all()
    query = job.query
    jobs, commits, batch_id = _jobs(site, query), _commits(settings), _last_batch(query)
    act()
    job.process_all()
    data_batches = [each for each in query.recentProgress if each.batchId > batch_id and each.numInputRows]
    took_ms = sum(each.durationMs["triggerExecution"] for each in data_batches)
    empty = len([each for each in query.recentProgress if each.batchId > batch_id]) - len(data_batches)
    return _jobs(site, query) - jobs - empty, _commits(settings) - commits, took_ms


def _jobs(site: SparkSite, query: StreamingQuery) -> int:
    return len(site.spark.sparkContext.statusTracker().getJobIdsForGroup(str(query.runId)))


def _last_batch(query: StreamingQuery) -> int:
    return max(each.batchId for each in query.recentProgress)


def _commits(settings: NamesrvSettings) -> int:
    root = Root(settings.delta_root)
    return sum(root.open(spec).version() for spec in TABLES.values())


def batch_time_ms(site: SparkSite, brokers: int, rounds: int) -> tuple[int, int]:
    """Return the median ms of a batch in which every broker heartbeats, and of one in which a broker changes too."""
    settings = site.settings(f"fleet-{brokers}", **{"maxOffsetsPerTrigger": 2**31 - 1})
    quiet, changed = [], []
    with site.running(settings, brokers) as (job, fleet):
        for number in range(rounds):
            quiet.append(_cost(site, settings, job, fleet.heartbeat_all)[2])
            changed.append(_cost(site, settings, job, partial(_heartbeats_and_change, fleet, number))[2])
    return round(statistics.median(quiet)), round(statistics.median(changed))


class _Nothing(StatefulProcessor):
    """Keeps no state and no timer: what is left is Spark's own work for a key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Take nothing."""

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        """Read the rows."""
        deque(rows, 0)
        return iter(())

    def close(self) -> None:
        """Have nothing to close."""


def floor_of_keys_ms(site: SparkSite, brokers: int, rounds: int) -> int:
    """Return the median ms of a batch with a heartbeat of every broker, with an empty processor and no tables."""
    settings = site.settings(f"floor-{brokers}", **{"maxOffsetsPerTrigger": 2**31 - 1})
    with site.producer(settings) as producer, patch.object(job_query, "BrokerLiveness", _Nothing):
        fleet = Brokers(producer, brokers, TOPICS_PER_BROKER)
        fleet.register_all()
        rows = job_query.registry_rows(kafka_records(site.spark, settings, None))
        running = rows.writeStream.foreachBatch(lambda frame, _: frame.write.format("noop").mode("overwrite").save())
        started = running.option("checkpointLocation", f"{settings.delta_root}-checkpoint").start()
        found = []
        for _ in range(1 + rounds):
            started.processAllAvailable()
            before = _last_batch(started)
            fleet.heartbeat_all()
            started.processAllAvailable()
            batches = [each for each in started.recentProgress if each.batchId > before and each.numInputRows]
            found.append(sum(each.durationMs["triggerExecution"] for each in batches))
        started.stop()
    return round(statistics.median(found[1:]))


def _heartbeats_and_change(fleet: Brokers, number: int) -> None:
    fleet.heartbeat_all()
    fleet.change(number)


@benchmark(
    option("--changes", 40, "Of the registry and of the floor."),
    option("--rounds", 3, "Of each size of fleet."),
    option("--fleet fleets", FLEETS, "Numbers of brokers."),
    plot=True,
)
def main(bench: Bench, changes: int, rounds: int, fleets: tuple[int, ...]) -> None:
    """Print the figures."""
    set_up_logging()
    logging.getLogger("namesrv_stream").setLevel(logging.WARNING)
    with running_kafka(bench.folder) as (kafka, _):
        spark = local_session("bench", {"spark.driver.memory": "3g"}, log=bench.folder / "spark.log")
        site = SparkSite(spark, kafka.bootstrap_servers, bench.folder)
        found = {
            "the registry": change_latency_ms(site, changes),
            "floor: one Spark append": floor_latency_ms(site, changes),
        }
        title = f"Append to published snapshot, {BROKERS} brokers, {changes} changes"
        rows = [(what, *(f"{percentile(ms, share):.0f}" for share in (0.5, 0.99))) for what, ms in found.items()]
        bench.rows(("what", "p50 ms", "p99 ms"), rows, title)
        costs = [(what, *map(str, cost)) for what, cost in cost_of_batches(site).items()]
        bench.rows(("batch", "Spark jobs", "Delta commits", "ms"), costs, "What one batch does")
        _measure_fleets(bench, site, rounds, fleets)
        spark.stop()


def _measure_fleets(bench: Bench, site: SparkSite, rounds: int, fleets: tuple[int, ...]) -> None:
    measured = [batch_time_ms(site, brokers, rounds) for brokers in fleets]
    rows = []
    for brokers, (quiet, changed) in zip(fleets, measured, strict=True):
        floor = floor_of_keys_ms(site, brokers, rounds)
        rows.append((f"{brokers:,}", str(floor), str(quiet), f"{quiet / floor:.1f}", str(changed)))
    headings = ("brokers", "floor: an empty processor, ms", "heartbeats alone, ms", "times", "and one change, ms")
    bench.rows(headings, rows, "A batch with a heartbeat of every broker")
    quiet_ms, changed_ms = zip(*measured, strict=True)
    drawn = {"heartbeats alone, ms": quiet_ms, "heartbeats and one change, ms": changed_ms}
    bench.draw("brokers that send a heartbeat in one batch", fleets, drawn)


if __name__ == "__main__":
    main()
