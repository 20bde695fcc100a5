"""Which topics of a registration count (R1a), in a gateway's request and in another program's record."""

import pytest

from namesrv_stream.errors import NamesrvError
from namesrv_stream.records import decode_readable, decode_record, encode_record
from namesrv_stream.rules.registration import valid_topics
from tests.build import registration

NAMES = [
    *(("", False), ("a\x1bb", False), ("a\u2028", False), ("n" * 1_025, False), ("n" * 1_024, True)),
    *((name, True) for name in (" a ", "a\u00a0", "\u3000", "a\u200b", "\ufeffa", "%", "主题", "%RETRY%" + "g" * 255)),
]


def with_topics(*names):
    return registration(topics=names, topic_queue_mapping_info_map={name: {} for name in names})


@pytest.mark.parametrize(("name", "is_taken"), NAMES)
def test_r1a_a_topic_with_a_name_that_no_client_can_ask_for_is_left_out_alone(name, is_taken):
    request, left_out = valid_topics(with_topics("T", name))
    assert left_out == (() if is_taken else (name,))
    assert set(request.topic_config_table) == set(request.topic_queue_mapping_info_map) == {"T", *[name] * is_taken}


def test_r1a_a_mapping_of_a_topic_that_is_left_out_is_too():
    request, left_out = valid_topics(registration(topics=("T",), topic_queue_mapping_info_map={"T": {}, "a\x1bb": {}}))
    assert (set(request.topic_queue_mapping_info_map), left_out) == ({"T"}, ())


@pytest.mark.parametrize(("name", "is_taken"), NAMES)
def test_r1a_a_record_of_another_program_counts_without_that_topic(name, is_taken):
    record = encode_record(with_topics("T", name))
    if is_taken:
        assert set(decode_record(record).topic_config_table) == {"T", name}
        return
    with pytest.raises(NamesrvError, match="topics that cannot be read"):
        decode_record(record)
    request, is_lease_only = decode_readable(record)
    assert (set(request.topic_config_table), is_lease_only) == ({"T"}, False)
