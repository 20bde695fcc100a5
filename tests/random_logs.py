"""Random logs for property tests: brokers that fight for ids, short leases, outages, a clock that steps back."""

from zlib import crc32

from hypothesis import strategies as st
from msgspec.structs import replace

from namesrv_stream.kafka.record_reader import StoredRecord
from namesrv_stream.records import encode_record, record_key
from namesrv_stream.rules.record_types import (
    AddWritePerm,
    BrokerHeartbeat,
    ChannelClosed,
    DataVersion,
    DeleteKvConfig,
    DeleteTopic,
    LiftExpiryGuard,
    PutKvConfig,
    QueueData,
    RegisterBroker,
    RegisterTopic,
    RetireBroker,
    Scan,
    TopicConfig,
    UnregisterBroker,
    UpdateNamesrvConfig,
    WipeWritePerm,
)

T0 = 1_700_000_000_000

ADDRESSES = ["10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911", "[::1]:10911"]
CHANNELS = [None, "g1/1", "g1/2", "g2/1"]
NAMES = ["broker-a", "broker-b"]
CLUSTERS = ["c1", "c2"]
TOPICS = ["TopicA", "TopicB", "TopicC"]

steps_ms = st.one_of(
    st.sampled_from([0, 0, 0, 1, 1_000, 1_000, 5_000, 9_999, 10_000, 10_001, 14_999, 15_000, 15_001]),
    st.sampled_from([16_000, 60_000, 119_999, 120_000, 120_001, 600_000, -1, -1_000, -30_000, -700_000]),
    st.integers(-5_000, 20_000),
)
"""Between a record's append time and the next one's."""

channels = st.sampled_from(CHANNELS)
topic_configs = st.builds(
    TopicConfig, read_queue_nums=st.just(8), write_queue_nums=st.sampled_from([4, 8]), perm=st.sampled_from([2, 4, 6])
)


def with_token(request):
    """A token stands for all that a registration says, not for its connection."""
    return replace(request, token=f"{crc32(encode_record(replace(request, channel_id=None))):08x}")


registrations = st.builds(
    RegisterBroker,
    cluster_name=st.sampled_from(CLUSTERS),
    broker_name=st.sampled_from(NAMES),
    broker_id=st.integers(0, 2),
    broker_addr=st.sampled_from(ADDRESSES),
    ha_server_addr=st.sampled_from(["", "10.0.0.9:10912"]),
    heartbeat_timeout_millis=st.sampled_from([None, None, 1, 10_000, 30_000]),
    enable_acting_master=st.sampled_from([None, False, True]),
    zone_name=st.sampled_from([None, "zone-1"]),
    broker_version=st.sampled_from([None, "5.4.0"]),
    data_version=st.builds(DataVersion, st.integers(0, 1), st.just(1), st.integers(0, 2)),
    topic_config_table=st.dictionaries(st.sampled_from(TOPICS), topic_configs, max_size=3),
    topic_queue_mapping_info_map=st.sampled_from([{}, {}, {"TopicA": {"bname": "broker-a", "totalQueues": 8}}]),
    filter_server_list=st.lists(st.sampled_from(["f:1", "f:2"]), max_size=2, unique=True),
    keep_filter_servers=st.booleans(),
    channel_id=channels,
).flatmap(lambda request: st.sampled_from([request, with_token(request), with_token(request)]))
updates = st.builds(
    RegisterBroker,
    cluster_name=st.just(CLUSTERS[0]),
    broker_name=st.just(NAMES[0]),
    broker_id=st.just(0),
    broker_addr=st.just(ADDRESSES[0]),
    data_version=st.builds(DataVersion, st.just(1), st.just(1), st.integers(0, 9)),
    topic_config_table=st.dictionaries(st.sampled_from(TOPICS), topic_configs, max_size=3),
)
"""A steady broker's registrations: its topics and their version change, and nothing else."""

heartbeats = st.builds(BrokerHeartbeat, broker_addr=st.sampled_from(ADDRESSES), channel_id=channels)
ends = st.one_of(
    st.builds(UnregisterBroker, broker_addr=st.sampled_from(ADDRESSES)),
    st.builds(ChannelClosed, broker_addr=st.sampled_from(ADDRESSES), channel_id=st.sampled_from(CHANNELS[1:])),
)
queue_datas = st.builds(
    QueueData, broker_name=st.sampled_from([*NAMES, "nobody"]), read_queue_nums=st.just(4), write_queue_nums=st.just(4),
    perm=st.just(6),
)  # fmt: skip
commands = st.one_of(
    st.builds(LiftExpiryGuard),
    st.builds(
        RetireBroker, cluster_name=st.sampled_from(CLUSTERS), broker_name=st.sampled_from(NAMES),
        broker_id=st.integers(0, 1), reason=st.just("gone"),
    ),
    st.builds(WipeWritePerm, broker_name=st.sampled_from(NAMES)),
    st.builds(AddWritePerm, broker_name=st.sampled_from(NAMES)),
    st.builds(DeleteTopic, topic=st.sampled_from(TOPICS), cluster_name=st.sampled_from([None, "", *CLUSTERS])),
    st.builds(RegisterTopic, topic=st.sampled_from(TOPICS), queue_datas=st.lists(queue_datas, max_size=2)),
    st.builds(PutKvConfig, namespace=st.just("n"), key=st.sampled_from("ab"), value=st.sampled_from("12")),
    st.builds(DeleteKvConfig, namespace=st.sampled_from("nm"), key=st.sampled_from("ab")),
    st.builds(
        UpdateNamesrvConfig,
        properties=st.sampled_from([
            {"deleteTopicWithBrokerRegistration": "true"},
            {"deleteTopicWithBrokerRegistration": "false"},
            {"configStorePath": "elsewhere"},
        ]),
    ),
)  # fmt: skip


def _said(request):
    return record_key(request), encode_record(request)


def _broken(request):
    """A registration of which only the lease can be read."""
    key, value = _said(request)
    return key, value[:-1] + b',"topicQueueMappingInfoMap":"?"}'


def _with_unreadable_topics(request):
    """A registration whose topics cannot be read. It is another one than that with them, and so is its token."""
    key, value = _said(request)
    return key, value.replace(b'"perm":', b'"perm":"none","was":').replace(b'"token":"', b'"token":"unreadable-')


junk = st.sampled_from([
    (b"", b"junk"),
    (b"", b'{"type":"HELLO"}'),
    (b"10.0.0.1:10911", b'{"type":"REGISTER_BROKER","brokerAddr":"10.0.0.1:10911"}'),
    (b"10.0.0.9:1", b'{"type":"BROKER_HEARTBEAT","brokerAddr":"10.0.0.1:10911"}'),
    (b"10.0.0.9:1", b'{"type":"UNREGISTER_BROKER","brokerAddr":"10.0.0.1:10911"}'),
    (b"", b'{"type":"PUT_KV_CONFIG","namespace":"n"}'),
])  # fmt: skip
ticks = st.just(_said(Scan()))

said = st.one_of(
    registrations.map(_said),
    registrations.map(_said),
    updates.map(_said),
    updates.map(_said),
    heartbeats.map(_said),
    heartbeats.map(_said),
    ticks,
    ticks,
    ticks,
    ends.map(_said),
    commands.map(_said),
    registrations.map(_broken),
    registrations.map(_with_unreadable_topics),
    junk,
)


@st.composite
def logs(draw, max_size=40):
    """A log as Kafka would hold it. Each record may be in it twice, as after a producer's retry."""
    found, at_ms = [], T0
    for step_ms, (key, value), copies in draw(
        st.lists(st.tuples(steps_ms, said, st.sampled_from([1, 1, 1, 1, 2])), min_size=1, max_size=max_size)
    ):
        at_ms += step_ms
        found += [StoredRecord(len(found) + number, at_ms, key, value) for number in range(copies)]
    return [record._replace(offset=offset) for offset, record in enumerate(found)]
