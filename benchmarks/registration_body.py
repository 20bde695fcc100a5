"""Encodes the body of REGISTER_BROKER as brokers of every release send it."""

from __future__ import annotations

import struct
import zlib

import msgspec

from namesrv_stream.rules.record_types import TopicConfig
from namesrv_stream.wire.codes import Version
from namesrv_stream.wire.json_text import encode_json
from namesrv_stream.wire.registration_request import RegisterBrokerBody

_INT32 = struct.Struct(">i")


def encode_registration(body: RegisterBrokerBody, version: int, *, compressed: bool = False) -> bytes:
    """Encode the body as a broker of `version` sends it: before 3.0.11 without compression and filter list.

    The fields of a topic that the registry does not use are those of a broker that never set them.
    """
    wrapper = body.topic_config_serialize_wrapper
    if version >= Version.V3_0_11 and compressed:
        return zlib.compress(_encode_sections(body, has_mappings=version >= Version.V5_0_0), zlib.Z_BEST_COMPRESSION)
    table = {topic: _whole_topic(topic, config) for topic, config in wrapper.topic_config_table.items()}
    fields = {
        "dataVersion": wrapper.data_version,
        "topicConfigTable": table,
        "topicQueueMappingInfoMap": wrapper.topic_queue_mapping_info_map,
    }
    if version < Version.V3_0_11:
        return encode_json(fields)
    return encode_json({"topicConfigSerializeWrapper": fields, "filterServerList": body.filter_server_list})


def _whole_topic(topic: str, config: TopicConfig) -> dict[str, object]:
    unset = {"topicName": topic, "topicFilterType": "SINGLE_TAG", "order": False, "attributes": {}}
    fields: dict[str, object] = msgspec.to_builtins(config)
    return unset | fields


def _encode_sections(body: RegisterBrokerBody, *, has_mappings: bool) -> bytes:
    wrapper = body.topic_config_serialize_wrapper
    attributes = " {}" if has_mappings else ""
    topics = [
        f"{topic} {config.read_queue_nums} {config.write_queue_nums} {config.perm} SINGLE_TAG{attributes}".encode()
        for topic, config in wrapper.topic_config_table.items()
    ]
    mappings = [encode_json(info) for info in wrapper.topic_queue_mapping_info_map.values()]
    parts = [_block(encode_json(wrapper.data_version)), _blocks(topics), _block(encode_json(body.filter_server_list))]
    return b"".join([*parts, _blocks(mappings)] if has_mappings else parts)


def _block(content: bytes) -> bytes:
    return _INT32.pack(len(content)) + content


def _blocks(contents: list[bytes]) -> bytes:
    return _INT32.pack(len(contents)) + b"".join(map(_block, contents))
