"""The cases in tests/gateway/cases: what brokers ask of a gateway, step by step, what it sends, and its answers.

Each is a rule with its `steps`, a timed log (tests/timed_log.py), and perhaps `limits` of known_brokers,
`reconcile_ms`, or the `reasons` for which its registrations were sent in full, null for a light one. What follows a
step are all records that were sent (`LIGHT over a`, of the connection `a`), all answers (a code, or of a version query
`changed` or `same`) and all connections that were closed. Of other addresses than ADDRESS the last digit is said.

A broker sends one of WORDS over a connection; Kafka acknowledges it unless that is false. Connections from `w` on are
of another host. Kafka acknowledges all in a partition, fails, refuses (it has no room) and takes again, leaves and
returns. A snapshot shows a lease of what the words say: `unread`, it has read nothing; `anew`, it is of another log;
`bare`, with a token of nothing; `heard_by` and `ago_s`, the connection over which the broker was heard. A connection
disconnects, idles, `within` a frame, waits while a request is being handed to Kafka, and proceeds. Large bodies wait
for their decoding; the gateway expires the silent, and stops.
"""

import asyncio
import inspect

import pytest
from msgspec.structs import replace

from namesrv_stream.gateway import known_brokers
from namesrv_stream.rules.record_types import (
    BrokerHeartbeat,
    ChannelClosed,
    PutKvConfig,
    RegisterBroker,
    RequestRefused,
    UnregisterBroker,
)
from namesrv_stream.wire.codes import RequestCode
from namesrv_stream.wire.frame import LARGE_BODY_BYTES
from namesrv_stream.wire.remoting_command import RemotingCommand
from tests.build import ADDRESS
from tests.data import data, require_known
from tests.gateway.registrations import command, live
from tests.gateway.site import LEAVE, PARTS, Site, settle
from tests.timed_log import step_of

CASES = data(__file__, "cases/brokers.yaml")
KINDS = {
    RegisterBroker: "FULL",
    BrokerHeartbeat: "LIGHT",
    ChannelClosed: "CLOSED",
    UnregisterBroker: "GONE",
    RequestRefused: "REFUSED",
    PutKvConfig: "PUT",
}
READING_MS = 1_000_000


def of_code(code, body=b"", **named):
    return replace(LEAVE, code=code, body=body, ext_fields=LEAVE.ext_fields | named)


def query(**named):
    return of_code(RequestCode.QUERY_DATA_VERSION, b'{"counter":1,"stateVersion":0,"timestamp":7}', **named)


def unnamed(said):
    return replace(said, ext_fields={"brokerAddr": ADDRESS})


BEAT = of_code(RequestCode.BROKER_HEARTBEAT)
WORDS = {
    "registration": command(),
    "registration-2": command(2),
    "part-1": PARTS[0],
    "part-2": PARTS[1],
    "slave-registration": command(broker_id=1),
    "renamed-registration": command(broker_name="b"),
    "moved-registration": command(cluster_name="d"),
    "short-lease": command(heartbeat_timeout_millis=10_000),
    "long-lease": command(heartbeat_timeout_millis=120_000),
    "unregistration": LEAVE,
    "kv-put": RemotingCommand(code=100, ext_fields={"namespace": "n", "key": "k", "value": "v"}),
    "heartbeat": BEAT,
    "unnamed-heartbeat": unnamed(BEAT),
    "renamed-heartbeat": of_code(RequestCode.BROKER_HEARTBEAT, brokerName="b"),
    "moved-heartbeat": of_code(RequestCode.BROKER_HEARTBEAT, clusterName="d"),
    "query": query(),
    "unnamed-query": unnamed(query()),
    "renamed-query": query(brokerName="b"),
    "moved-query": query(clusterName="d"),
    "slave-query": query(brokerId="1"),
    "large-query": of_code(RequestCode.QUERY_DATA_VERSION, b"{}".ljust(LARGE_BODY_BYTES + 1)),
}


def said_by(word):
    """Return what a word says, and the last digit of the address that says it."""
    word, _, number = word.partition("@")
    said, number = WORDS[word], number or "1"
    return replace(said, ext_fields=said.ext_fields | {"brokerAddr": address(number)}), number


def address(number):
    return ADDRESS if number == "1" else f"10.0.0.{number}:1"


class Play:
    """One case. `asked`: the answers that are still to come."""

    def __init__(self, reconcile_ms):
        self.site = Site(reconcile_ms)
        self.connections, self.asked, self.sent, self.ended = {}, [], 0, []
        log, registering, of = self.site.log, self.site.writes.registering, self.connection
        self.acts = {
            "Kafka acknowledges": lambda partition=0: log.acknowledge(partition),
            "Kafka fails": log.fail,
            "Kafka refuses": lambda: setattr(log, "refuses", True),
            "Kafka takes": lambda: setattr(log, "refuses", False),
            "Kafka leaves": lambda: registering.note_kafka(is_away=True),
            "Kafka returns": lambda: registering.note_kafka(is_away=False),
            "bodies wait": log.working.clear,
            "bodies decoded": log.working.set,
            "gateway expires": self.expire,
            "gateway stops": registering.stop,
        }
        self.of_connections = {
            "sends": self.ask,
            "disconnects": lambda letter: self.site.lose(of(letter)),
            "idles": lambda letter, **how: self.idle(of(letter), **how),
            "waits": lambda letter: of(letter).order.acquire(),
            "proceeds": lambda letter: of(letter).order.release(),
        }

    def connection(self, letter):
        if letter not in self.connections:
            self.connections[letter] = self.site.connect("127.0.0.2" if letter >= "w" else "127.0.0.1")
        return self.connections[letter]

    async def step(self, acts):
        for act in acts:
            if act.at_ms is not None:
                await self.site.clock.passes(act.at_ms / 1_000)
            match act.words:
                case []:
                    done = None
                case ["snapshot", "shows", *words]:
                    done = self.show(*words, **act.fields)
                case [letter, what, *words] if what in self.of_connections:
                    done = self.of_connections[what](letter, *words, **act.fields)
                case words:
                    done = self.acts[" ".join(words)](**act.fields)
            if inspect.isawaitable(done):
                await done
        await settle()
        return [fact.split() for fact in (*self.new_records(), *self.new_answers(), *self.new_ends())]

    async def ask(self, letter, word, *, acknowledged=True):
        said, _ = said_by(word)
        self.asked.append(self.site.ask(said, self.connection(letter)))
        await settle()
        if acknowledged:
            self.site.log.acknowledge()

    def show(self, *words, heard_by="nobody", ago_s=0):
        options = {"unread", "anew", "bare"} & set(words)
        said = [said_by(each) for each in words if each not in {*options, "nobody"}]
        by = f"g/{self.connection(heard_by).number}" if len(heard_by) == 1 else heard_by
        more = {"channels": {by: READING_MS - ago_s * 1_000}}
        if said:
            more["heartbeat_timeout_millis"] = int(said[0][0].ext_fields.get("heartbeatTimeoutMillis", 120_000))
        lease = live(*(each for each, _ in said))._replace(**more)
        numbers = {number for _, number in said} | ({"1"} if "bare" in options else set())
        answers = self.site.answers(
            0 if "unread" in options else None,
            READING_MS,
            "another" if "anew" in options else "log",
            **{address(number): lease for number in numbers},
        )
        self.site.writes.follow(answers)

    async def idle(self, connection, seconds, within=None):
        connection.data_received(b"\0\0\1" if within else b"")
        connection.close_if_overdue(asyncio.get_running_loop().time() + seconds, 120)
        if connection.is_closing:
            await self.site.lose(connection)

    def expire(self, seconds):
        loop = asyncio.get_running_loop()
        later_s = loop.time() + seconds
        loop.time = lambda: later_s
        self.site.writes.registering.close_expired()
        del loop.time

    def new_records(self):
        letters = {f"g/{each.number}": letter for letter, each in self.connections.items()}
        new, self.sent = self.site.log.sent[self.sent :], len(self.site.log.sent)
        for record in new:
            over, of = letters.get(getattr(record, "channel_id", None)), getattr(record, "broker_addr", ADDRESS)
            told = KINDS[type(record)] + (f" over {over}" if over else "")
            yield told + ("" if of == ADDRESS else f" of @{of[7]}")

    def new_answers(self):
        for asked in [each for each in self.asked if each.done()]:
            self.asked.remove(asked)
            changed = (asked.result().ext_fields or {}).get("changed")
            yield "answer " + {"true": "changed", "false": "same", None: f"{asked.result().code}"}[changed]

    def new_ends(self):
        for letter, connection in self.connections.items():
            if connection.is_closing and letter not in self.ended:
                self.ended.append(letter)
                yield f"{letter} closed"


@pytest.mark.parametrize("rule", CASES, ids=[rule.replace(" ", "-") for rule in CASES])
async def test_each_case_of_brokers_is_as_it_says(rule, monkeypatch):
    case = CASES[rule]
    require_known(case, "steps limits reconcile_ms reasons")
    for name, limit in case.get("limits", {}).items():
        monkeypatch.setattr(known_brokers, name, limit)
    play = Play(case.get("reconcile_ms", 300_000))
    for step in map(step_of, case["steps"]):
        assert await play.step(step.acts) == (step.facts or []), step
    if "reasons" in case:
        assert play.site.reasons == case["reasons"]
