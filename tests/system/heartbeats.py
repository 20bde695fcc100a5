"""Helpers of system tests: a heartbeat topic to write to, and the tables that must result."""

from functools import partial

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.kafka.producer import HeartbeatProducer
from namesrv_stream.kafka.topic import end_offsets, ensure_topic
from namesrv_stream.records import decode_record
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.tables.registry import Registry
from replay.case_checks import Check, check_output
from tests import build, waiting
from tests.build import address
from tests.log_records import stored_records
from tests.published import rows_of
from tests.replay_comparison import canonical

LIMIT_S = 180
eventually, until = (partial(each, limit_s=LIMIT_S) for each in (waiting.eventually, waiting.until))

PATIENT = {"socket.timeout.ms": 60_000}
"""Options of a client that waits for the answers of a busy machine's Kafka: 5 s are the product's own limit."""

IMPATIENT = {"kafka.request.timeout.ms": "2000", "kafka.default.api.timeout.ms": "2000"}
"""Settings of a job that soon notices that Kafka is away."""


def registration(number, *, topics=("TopicA",), counter=1, **fields):
    """Broker `number`, a master with a name and an address of its own."""
    return build.registration(address(number), topics=topics, counter=counter, broker_name=f"broker-{number}", **fields)


class Heartbeats:
    """A topic, and the settings of a job that reads it into tables under `folder`."""

    def __init__(self, node, topic, folder, **settings):
        self.kafka = PATIENT | {"bootstrap.servers": node.bootstrap_servers}
        self.topic = topic
        self.root = str(folder / "registry")
        self.options = {
            "kafka.bootstrap.servers": node.bootstrap_servers,
            "kafka.topic": topic,
            "delta.root": self.root,
            "triggerMillis": "0",
            **settings,
        }
        self.topic_id = ensure_topic(self.kafka, topic).topic_id
        self._producer = HeartbeatProducer(self.kafka, topic)

    def reopen(self):
        """A new producer: the topic was made anew."""
        self._producer.close()
        self._producer = HeartbeatProducer(self.kafka, self.topic)

    @property
    def settings(self):
        return NamesrvSettings.model_validate(self.options)

    def say(self, *requests):
        """Returns once Kafka has all of them."""
        for sent in [self._producer.send(request) for request in requests]:
            sent.result(LIMIT_S)

    def tick(self):
        self._producer.tick().result(LIMIT_S)

    def close(self):
        self._producer.close()

    def view(self):
        """The newest published snapshot."""
        return Registry(self.root).newest()

    def rows(self, name):
        """All rows of one table as of the newest snapshot."""
        return rows_of(self.root, name)

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

    def values(self):
        """The values of all records, in order."""
        return [each.value for each in stored_records(self.kafka, self.topic)]

    def states(self):
        """Return the tables that must show after each record: entry n once all records before offset n are applied."""
        routes = RouteRegistry(self.settings)
        states = [shown(routes.view())]
        for each in stored_records(self.kafka, self.topic):
            routes.apply(decode_record(each.value), LogPosition(each.append_time_ms, 0, each.offset))
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
