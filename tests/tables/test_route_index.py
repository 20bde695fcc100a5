"""The registry in memory and a reader of its published tables answer lookups from the same indexes."""

import dataclasses

import pytest

from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.record_types import DeleteKvConfig, PutKvConfig, UpdateNamesrvConfig
from namesrv_stream.tables.registry import Registry
from tests.registry import PublishedRegistry

T0 = 1_700_000_000_000


@pytest.fixture
def registry(tmp_path):
    """Rows in every table, which come in another order than that of their keys; namespaces with and without entries."""
    registry = PublishedRegistry(str(tmp_path / "registry"), T0)
    registry.register("10.0.0.3:10911", "c2", "broker-b", 1, filter_server_list=["f:2", "f:1"])
    registry.register(
        "10.0.0.2:10911", "c2", "broker-b", topics=("Z", "A"), topic_queue_mapping_info_map={"A": {"n": 1}}
    )
    registry.register("10.0.0.1:10911", "c1", "broker-a", topics=("A",), topic_queue_mapping_info_map={"A": {"n": 2}})
    for namespace, key in (("full", "b"), ("full", "a"), ("emptied", "k")):
        registry.command(PutKvConfig(namespace=namespace, key=key, value="v"))
    registry.command(DeleteKvConfig(namespace="emptied", key="k"))
    registry.command(UpdateNamesrvConfig(properties={"orderMessageEnable": "true"}))
    return registry


def test_what_is_published_is_indexed_as_in_memory_and_in_the_same_order(registry):
    in_memory, read = registry.rules.view(), Registry(registry.root).newest().routes
    assert list(read.queues.rows()) == list(in_memory.queues.rows()) != []
    for field in (each.name for each in dataclasses.fields(RouteTables) if each.init and each.name != "queues"):
        ours, theirs = getattr(in_memory, field), getattr(read, field)
        assert theirs, f"{field} has rows"
        assert theirs == ours
        assert list(theirs) == list(ours) == sorted(theirs), field
