"""Whatever RocketMQ's own classes read, headers and registrations with values of odd types, is read with their meaning.

Both decode the same texts, theirs in a JVM. Only JSON is tried: fastjson also takes comments and single quotes.
"""

import struct
from itertools import product

import pytest

from namesrv_stream.errors import BadRequestError, FrameError
from namesrv_stream.wire.codes import Version
from namesrv_stream.wire.registration_request import decode_registration
from namesrv_stream.wire.remoting_command import decode_command
from tests.java_client import client_jvm

VALUES = (
    *('8', '"8"', '8.0', '8.7', '1e2', '"8.0"', '" 8"', '"+8"', '-1', 'null', '"null"', '""', 'true', 'false', '"x"'),
    *('{}', '{"a":[1,"x",null]}', '[8]', '[]', '99999999999', '"99999999999"', '1.50', '"\\u0041\\n"'),
)  # fmt: skip
HEADERS = [
    *(f'{{"code":105,"{name}":{value}}}' for name, value in product(("code", "flag", "version", "remark"), VALUES)),
    *(f'{{"code":105,"extFields":{{"a":{value},"b":"c"}}}}' for value in VALUES),
    *(f'{{"code":105,"language":{value}}}' for value in ("3", '"3"', '"PYTHON"', '"python"', '" GO"', "9.0", "13")),
    *('{"code":105,"extFields":null}', '{}', '{"Code":105}', ' {"code":105,"code":106} ', '{"code":105,"x":{"y":[1]}}'),
    *('{"code":105,"opaque":"7"}', '[]', 'null', '5', '"x"'),
]  # fmt: skip
TOPIC = '{"perm":6,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8,"%s":%s}'
BODY = (
    '{"filterServerList":%s,"topicConfigSerializeWrapper":{"dataVersion":{"counter":1,"stateVersion":2,"timestamp":3'
    ',"%s":%s},"topicConfigTable":{"T":%s}}}'
)
NULL = ("null", '"null"')
"""Values that a registration takes for an absent field (R1a), and RocketMQ for 0."""
BODIES = [
    *(BODY % ("[]", name, value, TOPIC % ("perm", 6)) for name in ("counter", "timestamp") for value in VALUES
      if value not in NULL),
    *(BODY % ("[]", "counter", 1, TOPIC % field) for field in product(("perm", "readQueueNums"), VALUES)
      if field[1] not in NULL),
    *(BODY % (servers, "counter", 1, TOPIC % ("perm", 6)) for servers in ("null", '["a:1"]', '"a:1"', "[1]", "[]")),
    BODY % ("[]", "timestamp", "1764153600123.5", TOPIC % ("order", '"true"')),
]  # fmt: skip


@pytest.fixture(scope="module")
def java(tmp_path_factory):
    with client_jvm(tmp_path_factory.mktemp("java")) as gateway:
        yield gateway.jvm


def theirs(read, *arguments):
    """Return what a method of Java returns, None if it throws."""
    try:
        return read(*arguments)
    except Exception as error:
        assert "java_exception" in vars(error), error
        return None


@pytest.mark.long
def test_a_header_with_values_of_other_types_is_read_as_java_reads_it(java):
    differences, read = [], 0
    for text in HEADERS:
        content = struct.pack(">I", len(text)) + text.encode()
        command = java.org.apache.rocketmq.remoting.protocol.RemotingCommand
        if (said := theirs(command.decode, java.java.nio.ByteBuffer.wrap(content))) is None:
            continue
        fields = {name: value for name, value in dict(said.getExtFields() or {}).items() if value is not None}
        language = "OTHER" if said.getLanguage() is None else said.getLanguage().name()
        wanted = (said.getCode(), language, said.getVersion(), said.getFlag(), said.getRemark() or None, fields)
        try:
            ours = decode_command(content)
        except FrameError as error:
            differences.append((text, wanted, error))
            continue
        got = (ours.code, ours.language, ours.version, ours.flag, ours.remark, ours.ext_fields or {})
        differences += [(text, wanted, got)] if got != wanted else []
        read += 1
    assert differences == []
    assert read > 90


@pytest.mark.long
def test_a_registration_with_values_of_other_types_is_read_as_java_reads_it(java):
    differences, read = [], 0
    version = java.org.apache.rocketmq.common.MQVersion.Version.V5_4_0
    body = java.org.apache.rocketmq.remoting.protocol.body.RegisterBrokerBody
    for text in BODIES:
        if (said := theirs(body.decode, text.encode(), False, version)) is None:
            continue
        wrapper = said.getTopicConfigSerializeWrapper()
        table = dict(wrapper.getTopicConfigTable()).items()
        wanted = (
            (wrapper.getDataVersion().getTimestamp(), wrapper.getDataVersion().getCounter()),
            {name: (row.getReadQueueNums(), row.getWriteQueueNums(), row.getPerm()) for name, row in table},
            None if said.getFilterServerList() is None else list(said.getFilterServerList()),
        )
        try:
            ours = decode_registration(text.encode(), int(Version.V5_4_0))
        except BadRequestError as error:
            differences.append((text, wanted, error))
            continue
        found = ours.topic_config_serialize_wrapper
        got = (
            (found.data_version.timestamp, found.data_version.counter),
            {name: (row.read_queue_nums, row.write_queue_nums, row.perm) for name, row in
             found.topic_config_table.items()},
            ours.filter_server_list,
        )  # fmt: skip
        differences += [(text, wanted, got)] if got != wanted else []
        read += 1
    assert differences == []
    assert read > 50
