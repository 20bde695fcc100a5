"""Helpers of system tests: a heartbeat topic to write to, the tables that must result, and a reader that watches."""

import threading
from functools import partial

from kafka import KafkaConsumer, TopicPartition

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError
from namesrv_stream.kafka.producer import HeartbeatProducer
from namesrv_stream.kafka.topic import TOPIC_CONFIG, end_offsets, ensure_topic
from namesrv_stream.records import decode_record
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.schemas import TABLES
from namesrv_stream.tables.snapshot_reader import RouteReader
from replay.case_checks import Check, check_output
from tests import build, waiting
from tests.build import address
from tests.clock import now_ms
from tests.replay_comparison import canonical

LIMIT_S = 180
eventually, until = (partial(each, limit_s=LIMIT_S) for each in (waiting.eventually, waiting.until))

PATIENT = {"socket.timeout.ms": 60_000}
"""Options of a client that waits for the answers of a busy machine's Kafka: 5 s are the product's own limit."""

BY_PRODUCERS_CLOCK = TOPIC_CONFIG | {"message.timestamp.type": "CreateTime"}


def registration(number, *, topics=("TopicA",), counter=1, **fields):
    """Broker `number`, a master with a name and an address of its own."""
    return build.registration(address(number), topics=topics, counter=counter, broker_name=f"broker-{number}", **fields)


class Heartbeats:
    """A topic, and the settings of a job that reads it into tables under `folder`.

    `at_ms` counts from `base_ms`, which lies an hour ago, and only in a topic with CreateTime.
    """

    def __init__(self, node, topic, folder, config=TOPIC_CONFIG, **settings):
        self.kafka = PATIENT | {"bootstrap.servers": node.bootstrap_servers}
        self.topic = topic
        self.root = str(folder / "registry")
        self.base_ms = now_ms() - 3_600_000
        self.options = {
            "kafka.bootstrap.servers": node.bootstrap_servers,
            "kafka.topic": topic,
            "delta.root": self.root,
            "triggerMillis": "0",
            **settings,
        }
        self.topic_id = ensure_topic(self.kafka, topic, config).topic_id
        self._producer = HeartbeatProducer(self.kafka, topic)

    def reopen(self):
        """A new producer: the topic was made anew."""
        self._producer.close()
        self._producer = HeartbeatProducer(self.kafka, self.topic)

    @property
    def settings(self):
        return NamesrvSettings.model_validate(self.options)

    def say(self, *requests, at_ms=0):
        """Returns once Kafka has all of them."""
        sent = [self._producer.send(request, event_time_ms=self.base_ms + at_ms) for request in requests]
        for each in sent:
            each.result(LIMIT_S)

    def tick(self, at_ms=0):
        self._producer.tick(event_time_ms=self.base_ms + at_ms).result(LIMIT_S)

    def close(self):
        self._producer.close()

    def view(self):
        """The newest published snapshot."""
        return RouteReader(self.root).open()

    def rows(self, name):
        """All rows of one table as of the newest snapshot."""
        reader = RouteReader(self.root)
        return rows_from_arrow(TABLES[name], reader.table(TABLES[name], reader.open().snapshot))

    def live(self):
        """The addresses that the newest snapshot shows."""
        return sorted(self.view().routes.live)

    @eventually
    def await_offset(self, offset):
        """Returns once a snapshot covers all records before `offset`; its view."""
        view = self.view()
        assert view.snapshot.offsets.get(0, 0) >= offset, f"the newest snapshot is {view.snapshot}"
        return view

    def end_offset(self):
        return end_offsets(self.kafka, self.topic)[0]

    def records(self):
        """(request, its place) of each record of partition 0, in order."""
        found = self._consumed()
        return [(decode_record(each.value), LogPosition(each.timestamp, 0, each.offset)) for each in found]

    def values(self):
        """The values of all records of partition 0, in order."""
        return [each.value for each in self._consumed()]

    def _consumed(self):
        partition, end = TopicPartition(self.topic, 0), self.end_offset()
        consumer = KafkaConsumer(
            bootstrap_servers=self.kafka["bootstrap.servers"], auto_offset_reset="earliest", enable_auto_commit=False
        )
        consumer.assign([partition])
        found = []
        while consumer.position(partition) < end:
            found += [record for batch in consumer.poll(500).values() for record in batch]
        consumer.close()
        return found

    def states(self):
        """Return the tables that must show after each record: entry n once all records before offset n are applied."""
        routes = RouteRegistry(self.settings)
        states = [shown(routes.view())]
        for request, at in self.records():
            routes.apply(request, at)
            states.append(shown(routes.view()))
        return states


def shown(tables):
    """All tables that lookups read, comparable; signs of life aside, which are published later."""
    output = check_output(Check(after=0), tables, NamesrvSettings(), base_ms=0, asked_at_ms=0)
    kv = {namespace: dict(entries) for namespace, entries in tables.kv.items()}
    live = [{**row, "lastUpdate": None} for row in output["live"]]
    return canonical({**output, "live": live, "kv": kv})


def assert_told_once(heartbeats):
    """Assert that no line of history is there twice."""
    told = [line._replace(epoch=0, seq=0) for line in heartbeats.rows("broker_event")]
    assert len(told) == len(set(told))


class Onlooker:
    """Follows the snapshots of a registry within a `with`; `views` has every one that it saw, by epoch."""

    def __init__(self, root):
        self.views = {}
        self._root = root
        self._stop = threading.Event()
        self._failure = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self):
        try:
            reader = self._reader()
            while not self._stop.wait(0.02):
                view = reader.follow()
                self.views[view.snapshot.epoch] = view
        except Exception as error:  # a thread has nobody else to tell
            self._failure = error

    def _reader(self):
        """Waits for a first snapshot."""
        while True:
            try:
                reader = RouteReader(self._root)
                reader.follow()
                return reader
            except NamesrvError:
                if self._stop.wait(0.05):
                    raise
