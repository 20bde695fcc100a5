"""Kept answers: which of them stay, and the answer to a request without its fields."""

import pytest

from namesrv_stream.gateway import answers as answers_module
from namesrv_stream.gateway.answers import AnswerCache
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.queues import TopicQueues
from namesrv_stream.rules.rows import BrokerRow, LogPosition, TopicRow
from namesrv_stream.tables.schemas import TABLES
from namesrv_stream.wire.remoting_command import RemotingCommand
from tests.data import data

CASES = data(__file__, "cases/answers.yaml")
LIMIT_BYTES = 100_000


@pytest.fixture
def answers(settings):
    """With values under the names that a missing field could be taken for."""
    names = ("None", "null", "")
    return AnswerCache(RouteTables(kv={name: dict.fromkeys(names, "v") for name in names}), settings())


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


@pytest.mark.parametrize(
    ("code", "fields"), [(206, {}), (224, {"cluster": "c"}), (106, {}), (101, {"namespace": "", "key": ""})]
)
@pytest.mark.parametrize("room", [0, -1])
def test_an_answer_that_clients_would_not_take_is_refused_with_its_size_and_another_way(
    answers, monkeypatch, code, fields, room
):
    whole = answers.anew(asked(code, **fields)).prepared.size_bytes
    monkeypatch.setattr(answers_module, "MAX_BYTES", whole + room)
    found = answers.anew(asked(code, **fields))
    assert found.result == (0 if room == 0 else 1)
    if room:
        assert all(part in found.prepared.frame(1) for part in (b"%d bytes" % whole, b"topicList", b"/v1/topics"))


@pytest.mark.parametrize("code", [105, 106, 901])
@pytest.mark.parametrize(
    ("version", "fields", "is_bare"), CASES["clients before 4.9.4 get bare broker ids unless they take standard json"]
)
def test_clients_before_4_9_4_get_bare_broker_ids_unless_they_take_standard_json(
    settings, code, version, fields, is_bare
):
    holder = BrokerRow("b", 1, "10.0.0.1:1", "c", None, None, LogPosition(0, 0, 0))
    tables = RouteTables({"T": [TopicRow("T", "b", 8, 8, 6, 0)]}, {"b": {1: holder}}, {"c": ("b",)})
    answers = AnswerCache(tables, settings())
    fields = fields | {"topic": "T", "brokerName": "b", "clusterName": "c"}
    for known in (317, 493):  # whatever was asked before
        answers.answer(RemotingCommand(code=code, version=known, ext_fields=fields))
    kept = answers.answer(RemotingCommand(code=code, version=version, ext_fields=fields))
    assert (b'{1:"10.0.0.1:1"}' in kept.prepared.frame(1)) is is_bare
    assert (b'{"1":"10.0.0.1:1"}' in kept.prepared.frame(1)) is not is_bare
    assert (b'"topicSynFlag":0' in kept.prepared.frame(1)) is (code == 105 and version < 393)


@pytest.mark.parametrize(
    ("limit", "code", "field"),
    [("MAX_KEPT_BYTES", 105, "topic"), ("MAX_KEPT_OF_OTHERS_BYTES", 901, "brokerName")],
)
def test_answers_that_are_kept_have_a_limit_whatever_is_asked_for(answers, monkeypatch, limit, code, field):
    monkeypatch.setattr(answers_module, limit, LIMIT_BYTES)
    given = [answers.answer(asked(code, **{field: f"name-{number}" * 100})) for number in range(1_000)]
    again = [answers.answer(asked(code, **{field: f"name-{number}" * 100})) for number in reversed(range(1_000))]
    kept = [one for one, other in zip(given, reversed(again), strict=True) if one is other]
    assert 0 < sum(len(each.prepared.frame(1)) for each in kept) < LIMIT_BYTES


ASKED = {105: {"topic": "t"}, 206: {}, 101: {"namespace": "n", "key": "k"}, 901: {"brokerName": "broker-a"}}
"""A request for a route, one for the topics, one for a KV value and one for the members of a broker name."""


def answers_after(settings, before, changed_tables, changed_routes):
    """Return the answers of the next snapshot, in which topic `t` has gone."""
    changed = frozenset(changed_tables.split())
    assert changed <= TABLES.keys()
    answers = AnswerCache(RouteTables(queues=TopicQueues.of([row("u")]), brokers=BROKERS), settings())
    answers.take_over(before, changed, changed_routes)
    return answers


def row(topic):
    return TopicRow(topic, "broker-a", 8, 8, 6, 0)


BROKERS = {"broker-a": {0: BrokerRow("broker-a", 0, "10.0.0.1:1", "c", None, None, LogPosition(0, 0, 0))}}


@pytest.fixture
def with_routes(settings):
    """Answers with the topics `t` and `u`, all of which have been asked for."""
    answers = AnswerCache(RouteTables(queues=TopicQueues.of([row("t"), row("u")]), brokers=BROKERS), settings())
    for code, fields in ASKED.items():
        answers.answer(asked(code, **fields))
    answers.answer(asked(105, topic="u"))
    return answers


@pytest.mark.parametrize(
    ("changed_tables", "changed_routes", "kept"), CASES["an answer is kept if the change touches nothing it depends on"]
)
def test_an_answer_is_kept_if_the_change_touches_nothing_it_depends_on(
    settings, with_routes, changed_tables, changed_routes, kept
):
    before = {code: with_routes.answer(asked(code, **fields)) for code, fields in ASKED.items()}
    routes = changed_routes if changed_routes is None else frozenset(changed_routes)
    answers = answers_after(settings, with_routes, changed_tables, routes)
    after = {code: answers.answer(asked(code, **fields)) for code, fields in ASKED.items()}
    assert [code for code in sorted(ASKED) if after[code] is before[code]] == kept


def test_of_changed_routes_all_variants_of_the_lookup_are_answered_anew(settings, with_routes):
    with_routes.answer(asked(105, topic="t", __ZONE_MODE="true", __ZONE_NAME="z"))
    unchanged = with_routes.answer(asked(105, topic="u"))
    answers = answers_after(settings, with_routes, "topic", frozenset({"t"}))
    assert answers.answer(asked(105, topic="t", __ZONE_MODE="true", __ZONE_NAME="z")).result == 17
    assert answers.answer(asked(105, topic="t")).result == 17
    assert answers.answer(asked(105, topic="u")) is unchanged


def test_answers_of_a_former_snapshot_do_not_get_into_the_next(settings, with_routes):
    answers = answers_after(settings, with_routes, "topic", frozenset({"t"}))
    assert with_routes.answer(asked(105, topic="t")).result == 0
    assert answers.answer(asked(105, topic="t")).result == 17


def test_a_change_takes_answers_with_their_room_also_after_all_were_let_go_for_want_of_room(settings, monkeypatch):
    monkeypatch.setattr(answers_module, "MAX_KEPT_BYTES", LIMIT_BYTES)
    topics = [f"{number:0500}" for number in range(40)]
    answers = AnswerCache(RouteTables(), settings())
    for _ in range(3):
        first, *_ = [answers.answer(asked(105, topic=topic)) for topic in topics]
        assert answers.answer(asked(105, topic=topics[0])) is first, "there is room for all"
        answers = answers_after(settings, answers, "topic", frozenset(topics))
    answers.answer(asked(105, topic="u"))
    answers.answer(asked(105, topic="x" * LIMIT_BYTES))
    assert answers_after(settings, answers, "topic", frozenset({"u"})).answer(asked(105, topic="u")).result == 0


@pytest.mark.parametrize(
    ("code", "fields", "result", "said"), CASES["each lookup is answered from its tables and a missing field is null"]
)
def test_each_lookup_is_answered_from_its_tables_and_a_missing_field_is_null(settings, code, fields, result, said):
    flags = {"t": 0, "unit": 1, "sub": 2, "both": 3}
    queues = TopicQueues.of([row(topic)._replace(topic_sys_flag=flag) for topic, flag in flags.items()])
    holders = {"broker-a": {0: BROKERS["broker-a"][0]._replace(zone_name="y")}}
    kv = {"n": {"k": "v"}} | {name: dict.fromkeys(("None", "null", ""), "v") for name in ("None", "null", "")}
    in_force = settings(kafka__ssl__key__password="geheim")
    found = AnswerCache(RouteTables(queues, holders, {"c": ("broker-a",)}, kv=kv), in_force).answer(
        asked(code, **fields)
    )
    assert (found.result, said.encode() in found.prepared.frame(1)) == (result, True), found.prepared.frame(1)
