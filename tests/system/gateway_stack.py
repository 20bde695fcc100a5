"""Kafka, the streaming job and a gateway, all real, for tests with real RocketMQ peers."""

import json
import uuid
from contextlib import contextmanager
from functools import partial

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.gateway.launch import BackgroundGateway
from namesrv_stream.job.background_job import BackgroundJob
from tests import waiting
from tests.gateway.peer import Peer
from tests.published import rows_of

eventually, until = (partial(each, limit_s=90) for each in (waiting.eventually, waiting.until))


class Stack:
    """`settings` of its own topic and tables; the gateway listens at `namesrv_addr`."""

    def __init__(self, settings, job, gateway):
        self.settings = settings
        self.job = job
        self.gateway = gateway
        self.namesrv_addr = gateway.address

    def peer(self):
        return Peer(self.gateway.gateway.port)

    def ask(self, code, body=b"", **fields):
        with self.peer() as peer:
            return peer.ask(code, body, **fields)

    def json(self, code, **fields):
        answer = self.ask(code, **fields)
        assert answer.code == 0, answer
        return json.loads(answer.body)

    def addresses(self, broker_name):
        """Id to address of one broker name, as clients see it."""
        return self.json(901, clusterName="RealCluster", brokerName=broker_name)["brokerMemberGroup"]["brokerAddrs"]

    def events_of(self, broker_name):
        """The lines of the history about one broker name, in order."""
        told = rows_of(self.settings.delta_root, "broker_event")
        return [
            each for each in sorted(told, key=lambda each: (each.epoch, each.seq)) if each.broker_name == broker_name
        ]

    @contextmanager
    def another_gateway(self):
        with BackgroundGateway(self.settings) as gateway:
            yield Stack(self.settings, self.job, gateway)


@eventually
def registered(stack, name, addresses):
    assert stack.addresses(name) == addresses


@eventually
def routed(stack, topic):
    assert stack.ask(105, topic=topic).code == 0


@contextmanager
def running_stack(kafka, spark, folder, **more):
    settings = NamesrvSettings.model_validate(
        {
            "delta.root": str(folder / "registry"),
            "kafka.bootstrap.servers": kafka.bootstrap_servers,
            "kafka.topic": f"test-{uuid.uuid4().hex[:12]}",
            "kvConfigPath": str(folder / "kvConfig.json"),
            "listenPort": "0",
            "triggerMillis": "200",
            **more,
        }
    )
    with BackgroundJob(spark.newSession(), settings) as job, BackgroundGateway(settings) as gateway:
        yield Stack(settings, job, gateway)
