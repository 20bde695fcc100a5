"""The log decides (E1): of random logs, neither cuts nor restarts change tables or history."""

from dataclasses import replace

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from chaos.oracle import Oracle, contents, without_place
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.lease import LogClock
from namesrv_stream.rules.record_types import BrokerHeartbeat, RegisterBroker, Scan
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.tables.arrow import rows_from_arrow, rows_to_arrow
from namesrv_stream.tables.schemas import LIVE, ROUTE_TABLES
from tests.examples import examples
from tests.random_logs import T0, logs, steps_ms

SETTINGS = NamesrvSettings()
GUARDED = NamesrvSettings(expiry_guard_ratio=0.4, expiry_guard_max_millis=30_000)
NO_SHRINKING = [Phase.explicit, Phase.reuse, Phase.generate]


class Tables:
    """The route tables as publications leave them, their rows in no order; what a restart begins with."""

    def __init__(self, settings):
        self._settings = settings
        self._rows = {spec: {} for spec in ROUTE_TABLES}
        self._clock = LogClock()

    def publish(self, registry):
        """Take what has changed, through Arrow as Delta gets it. Return the lines of history."""
        came, heard = registry.take_changes(), registry.take_signs_of_life()
        for spec, rows in self._rows.items():
            changes = [change for change in came.changes if change.table == spec.name]
            changed = [change.after for change in changes if change.after is not None]
            upserts = [*changed, *(heard if spec is LIVE else ())]
            rows |= {row[: len(spec.key)]: row for row in rows_from_arrow(spec, rows_to_arrow(spec, upserts))}
            for change in changes:
                if change.after is None:
                    del rows[change.key]
        self._clock = replace(registry.clock)
        return [without_place(line) for line in came.events]

    def registry(self, order):
        """A new registry that goes on from here."""
        registry = RouteRegistry(self._settings)
        shuffled = {spec.name: order.sample([*rows.values()], len(rows)) for spec, rows in self._rows.items()}
        registry.load(shuffled, replace(self._clock))
        return registry


@settings(phases=NO_SHRINKING)
@given(
    logs(),
    st.sets(st.integers(0, 40)),
    st.sets(st.integers(0, 40)),
    st.randoms(use_true_random=False),
    st.sampled_from([SETTINGS, GUARDED]),
)
def test_publishing_and_restarting_anywhere_changes_neither_tables_nor_history(
    log, cuts, restarts, order, given_settings
):
    """Nor has any lease its last sign of life before it began."""
    whole, part, tables, history = Oracle(given_settings), Oracle(given_settings), Tables(given_settings), []
    for record in log:
        whole.apply(record)
        if record.offset in cuts | restarts:
            history += tables.publish(part.registry)
        if record.offset in restarts:
            part.registry = tables.registry(order)
        part.apply(record)
        leases = part.registry.view().live.values()
        early = [lease for lease in leases if lease.lease_began_at > lease.last_update_timestamp]
        assert early == [], "the table checks it, so a row that broke it would stop the publication"
    history += tables.publish(part.registry)
    assert part.contents() == whole.contents()
    assert contents(tables.registry(order).view()) == whole.contents()
    assert history == whole.take_history()


class Leases:
    """A naive model of leases: all of them looked at, at each tick, in the words of L1, D5, D9, D11, E5 and E9."""

    def __init__(self, settings):
        self.last_ms, self.heard, self.timeout_ms, self.suspect_ms = {}, {}, {}, {}
        self.ticks = []
        self.clock = None
        self._settings = settings

    def sign(self, address, at_ms, timeout_ms=None):
        if timeout_ms is None and address not in self.last_ms:
            return
        now_ms = max([at_ms, *self.ticks])
        self.last_ms[address] = max(now_ms, self.last_ms.get(address, now_ms))
        reading = 0 if self.clock is None else self.clock + self.counted(at_ms - self.ticks[-1])
        self.heard[address] = max(reading, self.heard.get(address, 0))
        self.timeout_ms[address] = timeout_ms or self.timeout_ms[address]
        self.suspect_ms.pop(address, None)

    @staticmethod
    def counted(elapsed_ms):
        return min(max(elapsed_ms, 0), 3_000)

    def tick(self, at_ms):
        """Return who is gone, in order."""
        if self.clock is None:
            self.clock = at_ms
            self.heard = dict.fromkeys(self.heard, at_ms)
        else:
            self.clock += self.counted(at_ms - self.ticks[-1])
        self.ticks.append(at_ms)
        silent = {address: self.clock - heard for address, heard in self.heard.items()}
        gone = sorted((self.end(each), each) for each in silent if self.end(each) < self.clock)
        late = [each for each in silent if silent[each] > self.timeout_ms[each] - self.timeout_ms[each] // 4]
        ratio = self._settings.expiry_guard_ratio
        if ratio and len(late) > ratio * len(silent):
            fresh = [each for each in gone if each[1] not in self.suspect_ms]
            self.suspect_ms |= {address: max(self.ticks) for _, address in fresh}
            gone = [each for each in gone if each not in fresh]
        for _, address in gone:
            for known in (self.last_ms, self.heard, self.suspect_ms):
                known.pop(address, None)
        return [address for _, address in gone]

    def end(self, address):
        held_ms = self._settings.expiry_guard_max_millis if address in self.suspect_ms else 0
        return self.heard[address] + self.timeout_ms[address] + held_ms


SIGNS = st.tuples(st.sampled_from(["tick", "tick", "register", "heartbeat"]), st.sampled_from("abcd"), steps_ms)


@examples(200)
@given(
    st.lists(st.tuples(SIGNS, st.sampled_from([1, 10_000, 10_001, 120_000])), max_size=80),
    st.sampled_from([SETTINGS, GUARDED]),
)
def test_the_same_leases_end_at_the_same_ticks_in_the_same_order_as_in_a_naive_model(said, given_settings):
    model, registry, at_ms = Leases(given_settings), RouteRegistry(given_settings), T0
    for offset, ((kind, address, step_ms), timeout_ms) in enumerate(said):
        at_ms += step_ms
        at = LogPosition(at_ms, 0, offset)
        if kind == "tick":
            registry.apply(Scan(), at)
            ended = [line.broker_addr for line in registry.take_changes().events if line.type == "EXPIRED"]
            assert ended == [f"{address}:1" for address in model.tick(at_ms)]
        elif kind == "heartbeat":
            registry.apply(BrokerHeartbeat(broker_addr=f"{address}:1"), at)
            model.sign(address, at_ms)
        else:
            registry.apply(registration(address, timeout_ms), at)
            model.sign(address, at_ms, timeout_ms)
    live = registry.view().live
    assert {f"{address}:1": ms for address, ms in model.last_ms.items()} == {
        lease.broker_addr: lease.last_update_timestamp for lease in live.values()
    }
    assert {f"{address}:1": ms for address, ms in model.suspect_ms.items()} == {
        lease.broker_addr: lease.suspect_since for lease in live.values() if lease.suspect_since is not None
    }
    assert registry.suspect_count == len(model.suspect_ms)


def registration(address, timeout_ms):
    """A broker with a name of its own."""
    return RegisterBroker(
        cluster_name="c", broker_name=address, broker_id=0, broker_addr=f"{address}:1",
        heartbeat_timeout_millis=timeout_ms,
    )  # fmt: skip
