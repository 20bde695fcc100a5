"""The cases in tests/gateway/cases: what brokers ask of a gateway, step by step, what it sends, and its answers.

Each line is a case: a `rule`, its `steps`, and perhaps `limits` of known_brokers, `reconcile_ms`, or the `reasons` for
which its registrations were sent in full, null for a light one. A step is `[+SECONDS] WHAT [-> OUTCOME ...]`. Time
passes first. The outcomes are all records that were sent (`LIGHT/a`, of the connection `a`), all codes answered (of a
version query `same` or `changed`) and all connections closed (`end/a`); of other addresses than ADDRESS the last digit
is said: `LIGHT/a@2`. WHAT is one of:

`a WORD`: a request of WORDS over the connection `a`, which Kafka acknowledges; with `?` it does not. Connections from
`w` on are of another host. `ack`, `ack 1`: Kafka acknowledges, in a partition; `fail`: it fails; `refuses`, `takes`: it
has no room, it has. `show WORD ...`: a snapshot has read all and shows a lease of what the WORDS say, of none without
them; `unread`: it has read nothing; `anew`: of another log; `bare`: with a token of nothing; `by CHANNEL SECONDS`: over
which the broker was heard so long ago. `lose a`, `idle a SECONDS`, `half a SECONDS`: a connection fails, says nothing,
says half a frame. `hold a`, `go a`: a request of it is being handed to Kafka, was. `away`, `back`: Kafka. `expire a
SECONDS`: the silent are closed. `decoding`, `decoded`: large bodies wait. `stop`: the gateway stops.
"""

import asyncio
import inspect
import json
from pathlib import Path

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
from tests.data import require_known
from tests.gateway.registrations import command, live
from tests.gateway.site import LEAVE, PARTS, Site, settle

CASES = [json.loads(line) for line in Path(__file__).with_name("cases").joinpath("brokers.jsonl").open()]
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
    "reg": command(),
    "reg2": command(2),
    "part1": PARTS[0],
    "part2": PARTS[1],
    "slave": command(broker_id=1),
    "renamed": command(broker_name="b"),
    "moved": command(cluster_name="d"),
    "short": command(heartbeat_timeout_millis=10_000),
    "long": command(heartbeat_timeout_millis=120_000),
    "leave": LEAVE,
    "put": RemotingCommand(code=100, ext_fields={"namespace": "n", "key": "k", "value": "v"}),
    "beat": BEAT,
    "unnamed-beat": unnamed(BEAT),
    "renamed-beat": of_code(RequestCode.BROKER_HEARTBEAT, brokerName="b"),
    "moved-beat": of_code(RequestCode.BROKER_HEARTBEAT, clusterName="d"),
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
            "ack": lambda partition="0": log.acknowledge(int(partition)),
            "fail": log.fail,
            "refuses": lambda: setattr(log, "refuses", True),
            "takes": lambda: setattr(log, "refuses", False),
            "show": self.show,
            "lose": lambda letter: self.site.lose(of(letter)),
            "idle": lambda letter, seconds: self.idle(of(letter), seconds, b""),
            "half": lambda letter, seconds: self.idle(of(letter), seconds, b"\0\0\1"),
            "hold": lambda letter: of(letter).order.acquire(),
            "go": lambda letter: of(letter).order.release(),
            "away": lambda: registering.note_kafka(is_away=True),
            "back": lambda: registering.note_kafka(is_away=False),
            "expire": self.expire,
            "decoding": log.working.clear,
            "decoded": log.working.set,
            "stop": registering.stop,
        }

    def connection(self, letter):
        if letter not in self.connections:
            self.connections[letter] = self.site.connect("127.0.0.2" if letter >= "w" else "127.0.0.1")
        return self.connections[letter]

    async def step(self, text):
        words = text.split()
        if words[0].startswith("+"):
            await self.site.clock.passes(float(words.pop(0)))
        if words:
            what, *more = words
            done = self.acts[what](*more) if what in self.acts else self.ask(what, *more)
            if inspect.isawaitable(done):
                await done
        await settle()
        return [*self.new_records(), *self.new_answers(), *self.new_ends()]

    async def ask(self, letter, word):
        said, _ = said_by(word.rstrip("?"))
        self.asked.append(self.site.ask(said, self.connection(letter)))
        await settle()
        if not word.endswith("?"):
            self.site.log.acknowledge()

    def show(self, *words):
        shown, _, spoken = " ".join(words).partition("by ")
        options = {"unread", "anew", "bare"} & set(words)
        said = [said_by(each) for each in shown.split() if each not in options]
        by, ago_s = spoken.split() if spoken else ("nobody", 0)
        by = f"g/{self.connection(by).number}" if len(by) == 1 else by
        more = {"channels": {by: READING_MS - int(ago_s) * 1_000}}
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

    async def idle(self, connection, seconds, received):
        connection.data_received(received)
        connection.close_if_overdue(asyncio.get_running_loop().time() + int(seconds), 120)
        if connection.is_closing:
            await self.site.lose(connection)

    def expire(self, seconds):
        loop = asyncio.get_running_loop()
        later_s = loop.time() + int(seconds)
        loop.time = lambda: later_s
        self.site.writes.registering.close_expired()
        del loop.time

    def new_records(self):
        letters = {f"g/{each.number}": letter for letter, each in self.connections.items()}
        new, self.sent = self.site.log.sent[self.sent :], len(self.site.log.sent)
        for record in new:
            over, of = letters.get(getattr(record, "channel_id", None)), getattr(record, "broker_addr", ADDRESS)
            yield KINDS[type(record)] + (f"/{over}" if over else "") + ("" if of == ADDRESS else f"@{of[7]}")

    def new_answers(self):
        for asked in [each for each in self.asked if each.done()]:
            self.asked.remove(asked)
            changed = (asked.result().ext_fields or {}).get("changed")
            yield {"true": "changed", "false": "same", None: f"{asked.result().code}"}[changed]

    def new_ends(self):
        for letter, connection in self.connections.items():
            if connection.is_closing and letter not in self.ended:
                self.ended.append(letter)
                yield f"end/{letter}"


@pytest.mark.parametrize("case", CASES, ids=[each["rule"].replace(" ", "-") for each in CASES])
async def test_each_case_of_brokers_is_as_it_says(case, monkeypatch):
    require_known(case, "rule steps limits reconcile_ms reasons")
    for name, limit in case.get("limits", {}).items():
        monkeypatch.setattr(known_brokers, name, limit)
    play = Play(case.get("reconcile_ms", 300_000))
    for step in case["steps"]:
        what, _, follows = step.partition("->")
        assert await play.step(what) == follows.split(), step
    if "reasons" in case:
        assert play.site.reasons == case["reasons"]
