"""Reading requests, answered from memory while Kafka is away."""

import json
import struct
from pathlib import Path

import pytest

from namesrv_stream.gateway import gateway as gateway_module
from namesrv_stream.gateway.launch import BackgroundGateway
from namesrv_stream.rules.record_types import UpdateNamesrvConfig
from namesrv_stream.wire.codes import Flag
from namesrv_stream.wire.remoting_command import decode_command
from tests.data import data
from tests.gateway.peer import Peer
from tests.waiting import until

CASES = data(__file__, "cases/answers.yaml")


def in_json(header):
    return struct.pack(">II", 4 + len(header), len(header)) + header


@pytest.mark.parametrize(("header", "opaques"), CASES["the like of an answered lookup has the opaque of its frame"])
def test_the_like_of_an_answered_lookup_gets_the_opaque_that_decoding_finds(peer, header, opaques):
    for said in [header.encode() % opaque for opaque in (*opaques, *opaques)]:
        peer.socket.sendall(in_json(said))
        answer = peer.receive()
        assert (answer.opaque, answer.code) == (decode_command(in_json(said)[4:]).opaque, 0)


def test_the_like_of_an_answered_lookup_is_counted_and_a_body_or_flag_makes_it_another(gateway, peer):
    def counted():
        labels = {"code": "GET_ROUTEINFO_BY_TOPIC", "result": "SUCCESS"}
        return gateway.metrics.registry.get_sample_value("namesrv_requests_total", labels)

    assert [peer.ask(105, topic="TopicA").code for _ in range(3)] == [0] * 3
    before = counted()
    assert peer.ask(105, topic="TopicA").code == 0
    assert peer.ask(105, b"body", topic="TopicA").code == 0
    peer.send(105, flag=Flag.ONEWAY, topic="TopicA")
    peer.send(105, flag=Flag.ONEWAY, topic="TopicA")
    assert peer.ask(105, topic="TopicA").code == 0
    assert counted() == before + 5


def test_settings_changed_at_run_time_hold_with_their_snapshot(registry, settings):
    with BackgroundGateway(settings()) as running, Peer(running.gateway.port) as peer:
        assert peer.ask(206).code == 0
        changes = {"enableAllTopicList": "false", "enableTopicList": "false", "orderMessageEnable": "true"}
        registry.command(UpdateNamesrvConfig(properties=changes))
        until(lambda: peer.ask(206).remark == "disable")
        for code in (206, 224, 311, 312, 313):
            answer = peer.ask(code, cluster="c1")
            assert (answer.code, answer.remark) == (1, "disable")
        assert json.loads(peer.ask(105, topic="TopicA").body)["orderTopicConf"] == "broker-a:8"
        assert b"enableTopicList=false\n" in peer.ask(319).body


def test_lookups_wait_for_service_only_where_that_is_set(registry, settings):
    with BackgroundGateway(settings(needWaitForService=True)) as running, Peer(running.gateway.port) as peer:
        for _ in range(2):
            answer = peer.ask(105, topic="TopicA")
            assert (answer.code, answer.remark) == (1, "name server not ready")
        assert peer.ask(106).code == 0
    ready = settings(needWaitForService=True, waitSecondsForService=0)
    with BackgroundGateway(ready) as running, Peer(running.gateway.port) as peer:
        until(lambda: peer.ask(105, topic="TopicA").code == 0)


def test_no_topic_is_answered_as_unknown_while_the_tables_cannot_be_read(registry, settings, monkeypatch):
    monkeypatch.setattr(gateway_module, "FIRST_SNAPSHOT_LIMIT_S", 0.1)
    log = Path(registry.root) / "snapshot" / "_delta_log"
    away = log.rename(log.with_name("away"))
    log.mkdir()
    (log / f"{0:020}.json").write_text("{")
    with BackgroundGateway(settings()) as running, Peer(running.gateway.port) as peer:
        until(lambda: "is damaged" in peer.ask(105, topic="TopicA").remark)
        for code in (105, 106, 206, 304, 901):
            answer = peer.ask(code, topic="TopicA")
            assert answer.code == 1
            assert answer.remark.startswith("name server not ready: cannot read table snapshot under ")
            assert f"its file _delta_log/{0:020}.json is damaged" in answer.remark
        assert peer.ask(4711).code == 3
        (log / f"{0:020}.json").unlink()
        log.rmdir()
        away.rename(log)
        until(lambda: peer.ask(105, topic="TopicA").code == 0)
        assert peer.ask(105, topic="Nowhere").code == 17


@pytest.mark.parametrize(("code", "fields"), CASES["writes are refused with a reason while kafka is away"])
def test_writes_are_refused_with_a_reason_while_kafka_is_away(peer, code, fields):
    answer = peer.ask(code, **fields)
    assert answer.code == 2
    assert "Kafka" in answer.remark


@pytest.mark.parametrize(
    ("code", "body", "fields", "result", "remark"),
    CASES["bad writes are answered with the reason with or without kafka"],
)
def test_bad_writes_are_answered_with_the_reason_with_or_without_kafka(peer, code, body, fields, result, remark):
    answer = peer.ask(code, body=body.encode("latin-1"), **fields)
    assert (answer.code, answer.remark) == (result, remark)
