"""Mappings of static topics, and when they end (T7, D12)."""

import pytest

from namesrv_stream.rules.record_types import DeleteTopic, UnregisterBroker
from tests.build import ADDRESS, Log

MAPPING = {"bname": "broker-a", "totalQueues": 8}


class OfOne(Log):
    """A registry with one broker, whose records come one after the other."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.say(counter=1, mappings={"Static": MAPPING})

    def say(self, counter, mappings=None, topics=("Static", "Other")):
        self.register(counter=counter, topics=topics, topic_queue_mapping_info_map=mappings or {})

    @property
    def mapped(self):
        return [topic for topic, names in self.registry.view().mappings.items() if names]


def test_d12_a_mapping_goes_with_its_deleted_topic():
    log = OfOne()
    log.apply(DeleteTopic(topic="Other"))
    assert log.mapped == ["Static"]
    log.apply(DeleteTopic(topic="Static"))
    assert log.mapped == []


def test_d12_a_mapping_outlives_its_broker_until_that_is_back_without_it():
    log = OfOne()
    log.apply(UnregisterBroker(broker_addr=ADDRESS))
    assert log.mapped == ["Static"]
    log.say(counter=1)
    assert log.mapped == []


def test_d12_a_mapping_goes_with_a_topic_that_a_registration_deletes():
    log = OfOne(delete_topic_with_broker_registration=True)
    log.say(counter=1, topics=("Other",))
    assert log.mapped == []


@pytest.mark.parametrize(("counter", "mapped"), [(1, ["Static"]), (2, [])], ids=["same version", "changed version"])
def test_d12_a_mapping_goes_if_its_broker_registers_the_topic_without_one_under_a_changed_version(counter, mapped):
    log = OfOne()
    log.say(counter=counter)
    assert log.mapped == mapped


def test_d12_a_mapping_of_a_topic_that_a_registration_does_not_name_stays():
    log = OfOne()
    log.say(counter=2, topics=("Other",))
    assert log.mapped == ["Static"]
