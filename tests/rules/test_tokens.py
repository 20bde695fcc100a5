"""E10: a lease has the token of a registration while applying that registration again would change nothing but life."""

from contextlib import suppress
from copy import deepcopy

import pytest
from hypothesis import given
from msgspec.structs import replace

from chaos.oracle import Oracle
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import MalformedRecordError
from namesrv_stream.records import decode_readable, decode_record
from namesrv_stream.rules.record_types import (
    AddWritePerm,
    BrokerHeartbeat,
    DeleteTopic,
    PutKvConfig,
    RegisterBroker,
    TopicConfig,
    UnregisterBroker,
    UpdateNamesrvConfig,
)
from namesrv_stream.rules.registration import MAX_TOKENS
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LogPosition
from tests.build import Log
from tests.examples import examples
from tests.random_logs import T0, logs
from tests.rules.tokens import OWN

SLAVE = replace(OWN, broker_id=1, broker_addr="10.0.0.2:10911", token="slave")
TOPICS_GO = UpdateNamesrvConfig(properties={"deleteTopicWithBrokerRegistration": "true"})


def registry(*said):
    log = Log()
    log.apply(*said)
    return log.registry


def tokens(made, address=OWN.broker_addr):
    lease = made.lease(address)
    return None if lease is None else lease.tokens


def changes_nothing(made, request):
    """Return whether the registration, applied in full, changes nothing but its lease's life."""
    again = deepcopy(made)
    again.take_changes()
    again.apply(request, LogPosition(again.clock.newest_tick_ms or T0, 0, 10_000))
    return not again.has_changes()


def registrations_in(log):
    found = {}
    for record in log:
        with suppress(MalformedRecordError):
            request = decoded(record)
            if isinstance(request, RegisterBroker) and request.token is not None:
                found[request.broker_addr, request.token] = request
    return found


def decoded(record):
    try:
        return decode_record(record.value, record.key)
    except MalformedRecordError:
        return decode_readable(record.value, record.key)[0]


@examples(300)
@given(logs())
def test_e10_what_a_lease_has_the_token_of_changes_nothing_if_it_is_applied_again(log):
    oracle = Oracle(NamesrvSettings())
    for record in log:
        oracle.apply(record)
    said = registrations_in(log)
    for lease in oracle.registry.view().live.values():
        for token in lease.tokens:
            assert changes_nothing(oracle.registry, said[lease.broker_addr, token])


@pytest.mark.parametrize(
    "before",
    [
        [OWN],
        [BrokerHeartbeat(broker_addr=OWN.broker_addr, channel_id="g2/2")],
        [replace(OWN, channel_id="g2/2")],
        [replace(OWN, token=None)],
        [replace(OWN, broker_name="broker-b", broker_addr="10.0.0.7:1", token="of another name")],
        [PutKvConfig(namespace="n", key="k", value="v")],
        [AddWritePerm(broker_name="broker-a")],
        [UnregisterBroker(broker_addr="10.0.0.7:1")],
    ],
    ids=str,
)
def test_what_changes_no_row_of_the_broker_name_leaves_the_token(before):
    assert tokens(registry(OWN, *before)) == ("own",)


def test_a_further_part_of_a_split_registration_adds_its_token():
    """B7: a part that only adds topics, under the same version, leaves what the others say."""
    part = replace(OWN, topic_config_table={"C": TopicConfig(8, 8, 6)}, token="part")
    assert tokens(registry(OWN, part)) == ("own", "part")
    assert tokens(registry(OWN, part, OWN)) == ("own", "part")
    assert tokens(registry(TOPICS_GO, OWN, part)) == ("part",)
    whole = replace(OWN, topic_config_table=OWN.topic_config_table | part.topic_config_table, token="whole")
    assert tokens(registry(OWN, whole)) == ("own", "whole")
    assert tokens(registry(TOPICS_GO, OWN, whole)) == ("whole",)
    assert tokens(registry(replace(OWN, filter_server_list=[], token="without"), OWN)) == ("own",)


def test_a_slave_has_its_token_beside_its_masters_until_the_master_changes():
    made = registry(OWN, SLAVE, OWN)
    assert (tokens(made), tokens(made, SLAVE.broker_addr)) == (("own",), ("slave",))
    made.apply(UnregisterBroker(broker_addr=OWN.broker_addr), LogPosition(T0, 0, 100))
    assert tokens(made, SLAVE.broker_addr) == ()


def test_a_lease_has_so_many_tokens_and_loses_the_oldest_first():
    parts = [replace(OWN, topic_config_table={f"T{n}": TopicConfig(8, 8, 6)}, token=f"{n}") for n in range(MAX_TOKENS)]
    assert tokens(registry(OWN, *parts)) == tuple(f"{n}" for n in range(MAX_TOKENS))


def test_a_registration_of_which_only_the_lease_was_read_has_no_token():
    made = registry(OWN)
    made.apply(OWN, LogPosition(T0, 0, 100), lease_only=True)
    assert tokens(made) == ()


def test_a_run_that_is_started_with_topics_going_trusts_no_token_of_the_run_before():
    """T5: the setting may be new in the file, and then the same registration does something else."""
    made = RouteRegistry(NamesrvSettings(delete_topic_with_broker_registration=True))
    made.load({"live": [registry(OWN).lease(OWN.broker_addr)]})
    assert tokens(made) == ()
    assert made.has_changes()


def test_a_token_alone_waits_for_the_next_publication_as_a_sign_of_life_does():
    made = registry(replace(OWN, token=None))
    made.take_changes()
    made.take_signs_of_life()
    made.apply(OWN, LogPosition(T0, 0, 100))
    assert not made.has_changes()
    assert [lease.tokens for lease in made.take_signs_of_life()] == [("own",)]


def test_tokens_that_no_longer_hold_are_published_at_once():
    made = registry(OWN)
    made.take_changes()
    made.apply(DeleteTopic(topic="A"), LogPosition(T0, 0, 100))
    assert tokens(made) == ()
    assert made.has_changes()
