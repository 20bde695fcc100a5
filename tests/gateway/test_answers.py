"""Answers out of memory: what is kept of them, and what a request without its fields is told."""

import pytest

from namesrv_stream.gateway import answers as answers_module
from namesrv_stream.gateway.answers import Answers
from namesrv_stream.gateway.lookup_frames import LookupFrames
from namesrv_stream.gateway.metrics import Metrics
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.rows import BrokerRow, LogPosition, TopicRow
from namesrv_stream.wire.command import RemotingCommand, encode_command

LIMIT_BYTES = 100_000


@pytest.fixture
def answers(settings):
    """With values under the names that a missing field could be taken for."""
    names = ("None", "null", "")
    return Answers(RouteTables(kv={name: dict.fromkeys(names, "v") for name in names}), settings())


def asked(code, **fields):
    return RemotingCommand(code=code, ext_fields=fields or None)


@pytest.mark.parametrize(("code", "fields"), [(206, {}), (105, {"topic": "T"}), (101, {"namespace": "n", "key": "k"})])
def test_fields_that_no_answer_depends_on_make_no_other_answer(answers, code, fields):
    first = answers.answer(asked(code, **fields, traceId="1"))
    assert answers.answer(asked(code, **fields, traceId="2")) is first


def test_fields_that_an_answer_depends_on_do(answers):
    variants = ({"topic": "T"}, {"topic": "U"}, {"topic": "T", "__ZONE_MODE": "true", "__ZONE_NAME": "z"})
    assert len({id(answers.answer(asked(105, **fields))) for fields in variants}) == 3
    assert answers.answer(asked(105, topic="T", acceptStandardJsonOnly="x")).result == 1


@pytest.mark.parametrize("code", [105, 106, 901])
@pytest.mark.parametrize(
    ("version", "fields", "is_bare"),
    [
        (0, {}, True),
        (317, {}, True),
        (400, {"acceptStandardJsonOnly": "false"}, True),
        (400, {"acceptStandardJsonOnly": "TRUE"}, False),
        (401, {}, False),
        (493, {}, False),
    ],
)
def test_clients_before_4_9_4_get_bare_broker_ids_unless_they_take_standard_json(
    settings, code, version, fields, is_bare
):
    holder = BrokerRow("b", 1, "10.0.0.1:1", "c", None, None, LogPosition(0, 0, 0))
    tables = RouteTables({"T": [TopicRow("T", "b", 8, 8, 6, 0)]}, {"b": {1: holder}}, {"c": ("b",)})
    answers = Answers(tables, settings())
    fields |= {"topic": "T", "brokerName": "b", "clusterName": "c"}
    for known in (317, 493):  # whatever was asked before
        answers.answer(RemotingCommand(code=code, version=known, ext_fields=fields))
    kept = answers.answer(RemotingCommand(code=code, version=version, ext_fields=fields))
    assert (b'{1:"10.0.0.1:1"}' in kept.prepared.frame(1)) is is_bare
    assert (b'{"1":"10.0.0.1:1"}' in kept.prepared.frame(1)) is not is_bare


def test_answers_without_broker_ids_are_kept_once_for_all_releases(answers):
    assert answers.answer(RemotingCommand(code=206, version=317)) is answers.answer(
        RemotingCommand(code=206, version=493)
    )


def test_answers_that_are_kept_have_a_limit_whatever_is_asked_for(answers, monkeypatch):
    monkeypatch.setattr(answers_module, "MAX_KEPT_BYTES", LIMIT_BYTES)
    frames = LookupFrames(answers.answer)
    for number in range(1_000):
        answers.answer(asked(105, topic=f"topic-{number}" * 100))
        frames.take(encode_command(RemotingCommand(code=105, opaque=1, ext_fields={"topic": f"T{number}"})))
    for kept in (answers._kept, frames._known):
        assert 0 < sum(len(kept_one.prepared.frame(1)) for kept_one in kept.values()) < LIMIT_BYTES
    assert answers.answer(asked(105, topic="T999")) is answers.answer(asked(105, topic="T999"))


@pytest.mark.parametrize(
    ("code", "remark"),
    [
        (101, "No config item, Namespace: null Key: null"),
        (219, "No config item, Namespace: null"),
    ],
)
def test_a_missing_field_is_null_and_no_name(answers, code, remark):
    answer = answers.answer(asked(code))
    assert answer.result == 22
    assert remark.encode() in answer.prepared.frame(1)


def test_a_missing_topic_is_null_and_no_topic(answers):
    answer = answers.answer(asked(105))
    assert answer.result == 17
    assert b"for the topic: null" in answer.prepared.frame(1)


def test_made_up_request_codes_are_counted_as_one():
    metrics = Metrics()
    for code in range(10_000, 11_000):
        metrics.answered(code, 3, 0.001)
    counted = {"code": "unknown", "result": "REQUEST_CODE_NOT_SUPPORTED"}
    assert metrics.registry.get_sample_value("namesrv_requests_total", counted) == 1_000
    assert len(metrics._of_code) == 0, "nothing is kept of each"
