"""What happens in the cases of stories and verdicts: the life of one registry, and brokers in a state."""

import json

from namesrv_stream.answers.causes import Member
from namesrv_stream.answers.definitions import DownBroker
from namesrv_stream.records import decode_record
from namesrv_stream.rules.record_types import BrokerHeartbeat, DataVersion
from tests.build import Log, registration
from tests.timed_log import step_of

AT = 1_795_683_180_000  # 2026-11-26 08:53 UTC
ADDRESSES = {"A": "10.0.0.1:10911", "B": "10.0.0.2:10911"}


class Life(Log):
    """A registry in which A is broker-a 0 of c1 with the topic T, and the lines of what happens next."""

    def __init__(self):
        super().__init__()
        self.happens([{"register": "A"}])

    def happens(self, steps):
        """Return the lines of some steps, a second each."""
        for step in steps:
            if "register" in step:
                self.apply(registered(**step))
            elif "end" in step:
                at = self.at()
                heard = at._replace(event_time=at.event_time - step.get("silent_ms", 0))
                self.registry.apply(BrokerHeartbeat(broker_addr=ADDRESSES["A"]), heard)
                self.registry.end(ADDRESSES["A"], step["end"], at.event_time, at)
            else:
                self.apply(decode_record(json.dumps(step).encode()))
        return self.registry.take_changes().events


def registered(register, topics=("T",), counter=0, state=0, **fields):
    version = DataVersion(state, 0, counter)
    return registration(ADDRESSES.get(register, register), topics=topics, data_version=version, **fields)


def members(text):
    """Brokers as a timed log: each act has brokers that are up, late or down, the last ones since its time."""
    return [member(name, act) for act in step_of(text).acts for name in act.words[:-1]]


def member(name, act):
    cluster, zone, state = act.fields.get("cluster", "c1"), act.fields.get("zone", "z1") or None, act.words[-1]
    (name, broker_id), at_ms = name.split("/"), AT + round(act.at_ms or 0)
    address = f"10.0.0.{name[2:]}:1"
    of = Member(cluster, zone, name, int(broker_id), address, {"up": "alive"}.get(state, state), at_ms)
    if state != "down":
        return of._replace(at_ms=AT + 600_000)
    heard_ms = at_ms - 120_000
    return of._replace(at_ms=heard_ms, down=DownBroker(cluster, name, 0, zone, address, "EXPIRED", heard_ms, at_ms))
