"""E10: whatever is sent light, the tables become what they would be had each registration been sent in full."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from chaos.oracle import contents
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.gateway.known_brokers import KnownBrokers
from namesrv_stream.rules.record_types import BrokerHeartbeat, ChannelClosed, UnregisterBroker
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LogPosition
from tests.examples import examples
from tests.random_logs import ADDRESSES, T0, commands, registrations, with_token
from tests.rules.tokens import OWN

TOPICS_GO = NamesrvSettings(delete_topic_with_broker_registration=True)
A_DAY_MS = 86_400_000


@dataclass(frozen=True)
class Snapshot:
    """The part of the tables that a gateway reads for this."""

    live: dict = field(default_factory=dict)
    offsets: dict = field(default_factory=dict)
    log_id: str = "log"


class Gateway:
    """A gateway, the snapshot that it follows, and the places of records that Kafka has not acknowledged yet."""

    def __init__(self, snapshot):
        self.known = KnownBrokers(A_DAY_MS)
        self.snapshot = snapshot
        self.late = []

    def follow(self, snapshot):
        self.snapshot = snapshot
        self.known.follow(snapshot)

    def acknowledge(self):
        for unread, place in self.late:
            unread.place = place
        self.late.clear()


class Site:
    """Two gateways, their log, the tables up to a place in it, and a registry to which all comes in full."""

    def __init__(self, settings):
        self.log, self.writers = [], []
        self.job, self.full, self.published = (RouteRegistry(settings) for _ in range(3))
        self.read = 0
        self.gateways = [Gateway(Snapshot()), Gateway(Snapshot())]
        self.said = {}
        self.light = 0

    def publish(self, records):
        """Show that many records more."""
        for at, record in self.log[self.read : self.read + records]:
            self.published.apply(record, at)
        self.read = min(len(self.log), self.read + records)

    def follow(self, gateway):
        gateway.follow(Snapshot(dict(self.published.view().live), {0: self.read}))

    def catch_up(self, gateway):
        self.publish(len(self.log))
        gateway.acknowledge()
        self.follow(gateway)

    def write(self, record, by=None, in_full=None):
        at = LogPosition(T0 + len(self.log), 0, len(self.log))
        self.job.apply(record, at)
        self.full.apply(in_full or record, at)
        self.log.append((at, record))
        self.writers.append(by)
        return at

    def knows_all(self, gateway, address):
        """Return whether all that the snapshot has not read are the gateway's own records of this address.

        What comes over another gateway or from another broker counts once a snapshot shows it.
        """
        unread = self.writers[gateway.snapshot.offsets.get(0, 0) :]
        return all(by == (gateway, address) for by in unread)

    def register(self, number, said, *, is_late, fails):
        """A broker registers in parts, over the connection that it has to this gateway."""
        gateway, address = self.gateways[number], said[0].broker_addr
        for part in said:
            if not self.knows_all(gateway, address):
                self.catch_up(gateway)
            self._send(gateway, replace(part, channel_id=f"g{number}/{address}"), is_late=is_late, fails=fails)
        self.said[address] = said

    def _send(self, gateway, request, *, is_late, fails):
        address = request.broker_addr
        is_light = gateway.known.why_in_full(address, request.token, gateway.snapshot, 0) is None
        gateway.known.note_sign_of_life(address, request.channel_id, request.timeout_ms)
        if is_light:
            self.light += 1
            heartbeat = BrokerHeartbeat(broker_addr=address, channel_id=request.channel_id)
            self.write(heartbeat, (gateway, address), in_full=request)
        elif fails:
            gateway.known.note_failed(address, gateway.snapshot)
        else:
            place = self.write(request, (gateway, address))
            gateway.late.append((gateway.known.note_sent_in_full(request, 0), place))
            if not is_late:
                gateway.acknowledge()

    def end(self, number, address, *, is_closed):
        gateway, channel_id = self.gateways[number], f"g{number}/{address}"
        if not is_closed:
            record, note = UnregisterBroker(broker_addr=address), gateway.known.note_sent_unregistration
        elif gateway.known.forget_channel(channel_id):
            record, note = ChannelClosed(broker_addr=address, channel_id=channel_id), gateway.known.note_sent_closed
        else:
            return
        place = self.write(record, (gateway, address))
        gateway.late.append((note(address), place))
        gateway.acknowledge()

    def restart(self, number):
        """A gateway begins anew with the newest snapshot. Its own records are another one's now."""
        self.gateways[number] = Gateway(Snapshot())
        self.follow(self.gateways[number])


def shown(registry):
    """The rows of all tables, without what signs of life change, and without tokens."""
    tables = contents(registry.view())
    live = [
        lease._replace(last_update_timestamp=0, clock_millis=0, tokens=(), channels=dict.fromkeys(lease.channels))
        for lease in tables["live"].values()
    ]
    return tables | {"live": live}


parts = st.builds(
    lambda address, found: [
        with_token(replace(found[0], broker_addr=address, topic_config_table=each.topic_config_table, token=None))
        for each in found
    ],
    st.sampled_from(ADDRESSES[:2]),
    st.lists(registrations, min_size=1, max_size=3),
)
numbers, addresses, sometimes = st.integers(0, 1), st.sampled_from(ADDRESSES[:2]), st.sampled_from([False, False, True])
steps = st.one_of(
    st.tuples(st.just("say"), numbers, parts, sometimes, sometimes),
    st.tuples(st.just("say"), numbers, parts, sometimes, sometimes),
    st.tuples(st.just("again"), numbers, addresses),
    st.tuples(st.just("again"), numbers, addresses),
    st.tuples(st.just("again"), numbers, addresses),
    st.tuples(st.just("publish"), st.integers(1, 4)),
    st.tuples(st.just("follow"), numbers),
    st.tuples(st.just("acknowledge"), numbers),
    st.tuples(st.just("close"), numbers, addresses),
    st.tuples(st.just("leave"), numbers, addresses),
    st.tuples(st.just("command"), commands),
    st.tuples(st.just("restart"), numbers),
    st.tuples(st.just("show"), numbers),
    st.tuples(st.just("show"), numbers),
    st.tuples(st.just("again after"), st.sampled_from(["close", "leave", "publish", "say"]), numbers, addresses, parts),
    st.tuples(st.just("again after"), st.sampled_from(["close", "leave", "publish", "say"]), numbers, addresses, parts),
)


def do(site, step):  # noqa: C901  # a case for each kind of step
    match step:
        case "say", number, said, is_late, fails:
            site.register(number, said, is_late=is_late, fails=fails)
        case "again", number, address if address in site.said:
            site.register(number, site.said[address], is_late=False, fails=False)
        case "publish", records:
            site.publish(records)
        case "follow", number:
            site.follow(site.gateways[number])
        case "acknowledge", number:
            site.gateways[number].acknowledge()
        case "close" | "leave", number, address:
            site.end(number, address, is_closed=step[0] == "close")
        case "command", command:
            site.write(command)
        case "restart", number:
            site.restart(number)
        case "show", number:
            site.catch_up(site.gateways[number])
        case "again after", change, number, address, said if address in site.said:
            again_after(site, change, number, address, said)


def again_after(site, change, number, address, said):
    """A broker says again what it has said, right after something else."""
    former = site.said[address]
    if change == "say":
        said = [with_token(replace(part, broker_addr=address, token=None)) for part in said]
        site.register(number, said, is_late=False, fails=False)
    elif change == "publish":
        site.publish(1)
        site.follow(site.gateways[number])
    else:
        site.end(number, address, is_closed=change == "close")
    site.register(number, former, is_late=False, fails=False)


@examples(400)
@given(st.lists(steps, min_size=1, max_size=25), st.sampled_from([NamesrvSettings(), TOPICS_GO]))
def test_e10_thinning_loses_nothing(taken, settings):
    site = Site(settings)
    for step in taken:
        do(site, step)
        assert shown(site.job) == shown(site.full), step


def test_what_is_said_again_is_light_in_these_histories():
    site = Site(NamesrvSettings())
    said = [with_token(registration) for registration in (OWN, replace(OWN, topic_config_table={}))]
    for _ in range(3):
        site.register(0, said, is_late=False, fails=False)
        site.catch_up(site.gateways[0])
        site.register(1, said, is_late=False, fails=False)
    assert site.light == 10
