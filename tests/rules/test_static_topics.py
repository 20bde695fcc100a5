"""Mappings of static topics, and when they end (T7, D12)."""

import pytest

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.record_types import DataVersion, DeleteTopic, RegisterBroker, TopicConfig, UnregisterBroker
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LogPosition

ADDRESS = "10.0.0.1:10911"
MAPPING = {"bname": "broker-a", "totalQueues": 8}


class Log:
    """A registry with one broker, whose records come one after the other."""

    def __init__(self, **settings):
        self.registry = RouteRegistry(NamesrvSettings(**settings))
        self._offset = 0
        self.register(counter=1, mappings={"Static": MAPPING})

    def apply(self, request):
        self._offset += 1
        self.registry.apply(request, LogPosition(1_000 * self._offset, 0, self._offset))

    def register(self, counter, mappings=None, topics=("Static", "Other")):
        request = RegisterBroker(
            cluster_name="c", broker_name="broker-a", broker_id=0, broker_addr=ADDRESS,
            data_version=DataVersion(0, 1, counter),
            topic_config_table={topic: TopicConfig(8, 8, 6) for topic in topics},
            topic_queue_mapping_info_map=mappings or {},
        )  # fmt: skip
        self.apply(request)

    @property
    def mapped(self):
        return [topic for topic, names in self.registry.view().mappings.items() if names]


def test_d12_a_mapping_goes_with_its_deleted_topic():
    log = Log()
    log.apply(DeleteTopic(topic="Other"))
    assert log.mapped == ["Static"]
    log.apply(DeleteTopic(topic="Static"))
    assert log.mapped == []


def test_d12_a_mapping_outlives_its_broker_until_that_is_back_without_it():
    log = Log()
    log.apply(UnregisterBroker(broker_addr=ADDRESS))
    assert log.mapped == ["Static"]
    log.register(counter=1)
    assert log.mapped == []


def test_d12_a_mapping_goes_with_a_topic_that_a_registration_deletes():
    log = Log(delete_topic_with_broker_registration=True)
    log.register(counter=1, topics=("Other",))
    assert log.mapped == []


@pytest.mark.parametrize(("counter", "mapped"), [(1, ["Static"]), (2, [])], ids=["same version", "changed version"])
def test_d12_a_mapping_goes_if_its_broker_registers_the_topic_without_one_under_a_changed_version(counter, mapped):
    log = Log()
    log.register(counter=counter)
    assert log.mapped == mapped


def test_d12_a_mapping_of_a_topic_that_a_registration_does_not_name_stays():
    log = Log()
    log.register(counter=2, topics=("Other",))
    assert log.mapped == ["Static"]
