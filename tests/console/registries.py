"""Registries that no test of answers changes: those of registries.yaml, and those whose steps are many of a kind."""

import json

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.records import decode_record
from namesrv_stream.rules.record_types import PutKvConfig, Scan, UnregisterBroker, WipeWritePerm
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import RejectedRow
from tests.console.conftest import A, B, C
from tests.console.crowd import address_of, lose_zone, publish_crowd, register, zone_of
from tests.data import data
from tests.timed_log import step_of

T0 = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC
ADDRESSES = {letter: f"10.0.0.{number}:10911" for number, letter in enumerate("ABCDEF", 1)}
BROKERS = 36
PLAYED = data(__file__, "registries.yaml")


def make(name, registry):
    """Let what belongs to the name of a registry happen in an empty one."""
    if name in PLAYED:
        play(registry, PLAYED[name])
    else:
        MADE[name](registry)


def registered(registry, address, place, **fields):
    cluster, name, broker_id = place.split("/")
    registry.register(address, cluster, name, int(broker_id), **fields)


VERBS = {"registers": registered, "expires": lambda registry, address, **fields: registry.expire(address, **fields)}


def ticks(registry, count, every_ms):
    for _ in range(count):
        registry.now_ms += every_ms
        registry.command(Scan(), publish=False)


OF_NOBODY = {
    "ticks": ticks,
    "settings": lambda registry, **settings: setattr(registry, "rules", RouteRegistry(NamesrvSettings(**settings))),
    "records rejected": lambda registry: registry.publish(rejected_at(registry.now_ms)),
    "published": lambda registry: registry.publish(),
    "log": lambda registry, gap: registry.gap(gap),
}


def play(registry, steps):
    """Let a timed log happen. Each act is an epoch of its own unless it says `publish=false`."""
    for act in (act for step in steps for act in step_of(step).acts):
        what = " ".join(act.words)
        if not what:
            registry.now_ms += round(act.at_ms)
        elif what in OF_NOBODY:
            OF_NOBODY[what](registry, **act.fields)
        elif len(act.words) > 1:
            letter, verb, *place = act.words
            VERBS[verb](registry, ADDRESSES[letter], *place, **act.fields)
        else:
            publish = act.fields.pop("publish", True)
            registry.command(decode_record(json.dumps({"type": what} | act.fields).encode()), publish=publish)


def rejected_at(now_ms):
    rows = [RejectedRow(now_ms - 4 + n, 0, n, "a\x1b[2J", b"[" * 999, 999, f"reason {n}") for n in range(3)]
    return [*rows, RejectedRow(now_ms, 0, 3, None, None, 0, "no value")]


def many(registry):
    """A command changes very many topics, of which a slave's do not count."""
    topics = tuple(f"T{number}" for number in range(300))
    registry.register(A, "c1", "broker-a", topics=topics)
    registry.register(B, "c1", "broker-b", topics=("U",))
    registry.command(WipeWritePerm(broker_name="broker-a", requested_by="ann@desk"))
    registry.register(C, "c1", "broker-b", 1, topics=topics)
    registry.expire(A)


def crowd(registry):
    """36 addresses of 18 names; epoch 2 brings them, epoch 3 is the outage of zone-1."""
    publish_crowd(registry, BROKERS, topics=40, topics_a_broker=5)
    registry.now_ms += 1_000
    lose_zone(registry, BROKERS, "zone-1")


def crowd_back(registry):
    """A zone is lost broker by broker, with one of another zone within the same minute, and comes back."""
    publish_crowd(registry, BROKERS, topics=40, topics_a_broker=5)
    lost = [number for number in range(BROKERS) if zone_of(number) == "zone-1"]
    registry.now_ms += 100_000
    for number in [*lost, 0]:
        registry.now_ms += 1_000
        registry.expire(address_of(number))
    registry.now_ms += 300_000
    for number in lost:
        registry.now_ms += 20_000
        register(registry, number)


def restarts(registry):
    """Brokers restart one after the other, two at once and one alone; two come late, and two zones are lost in turn."""
    publish_crowd(registry, BROKERS, topics=0, topics_a_broker=0)
    registry.now_ms += 100_000
    lost = [number for number in range(BROKERS) if zone_of(number) == "zone-1"]
    for number in lost:
        restart(registry, [number], 3_000 + 2_000 * (number % 2))
        registry.now_ms += 60_000
    for numbers in ([12, 14], [16], [30, 32]):
        registry.now_ms += 120_000
        restart(registry, numbers, 600_000 if len(numbers) > 1 and numbers[0] == 12 else 3_000)
    registry.now_ms += 120_000
    restart(registry, [13, 15], 600_001)
    registry.now_ms += 120_000
    for zone in ("zone-1", "zone-2"):
        for number in range(BROKERS):
            if zone_of(number) == zone:
                registry.expire(address_of(number), publish=False)
        registry.now_ms += 40_000
    registry.publish()


def restart(registry, numbers, away_ms):
    for number in numbers:
        registry.command(UnregisterBroker(broker_addr=address_of(number)), publish=False)
    registry.now_ms += away_ms
    for number in numbers:
        register(registry, number, publish=False)


def at_once(registry):
    """Twelve epochs of one time."""
    for number in range(12):
        registry.command(PutKvConfig(namespace="NS", key=f"k{number}", value="v"))


MADE = {each.__name__: each for each in (many, crowd, crowd_back, restarts, at_once)}
