"""E10: whatever is sent light, the tables become what they would be had each registration been sent in full."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from chaos.oracle import contents
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.gateway.registrations import Registrations
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.requests import BrokerHeartbeat, ChannelClosed, UnregisterBroker
from namesrv_stream.rules.rows import LogPosition
from tests.examples import examples
from tests.random_logs import ADDRESSES, T0, commands, registrations, with_token

TOPICS_GO = NamesrvSettings(delete_topic_with_broker_registration=True)


@dataclass(frozen=True)
class Snapshot:
    """The part of the tables that a gateway reads for this."""

    live: dict = field(default_factory=dict)
    offsets: dict = field(default_factory=dict)


class Site:
    """Two gateways, their log, the job that reads it, and a registry to which each registration comes in full."""

    def __init__(self, settings):
        self.gateways = [Registrations(10**9), Registrations(10**9)]
        self.snapshots = [Snapshot(), Snapshot()]
        self.unseen = [set(), set()]
        self.job, self.full = RouteRegistry(settings), RouteRegistry(settings)
        self.said = {}
        self.read = self.light = 0

    def write(self, record, in_full=None, by=None):
        """Add a record to the log. `by`: the gateway and the address, whose own records the gateway knows of."""
        at = LogPosition(T0 + self.read, 0, self.read)
        self.read += 1
        self.job.apply(record, at)
        self.full.apply(in_full or record, at)
        for number, unseen in enumerate(self.unseen):
            if by is None or by[0] != number:
                unseen.add(None if by is None else by[1])
        return at

    def follow(self, number):
        self.unseen[number].clear()
        self.snapshots[number] = Snapshot(dict(self.job.view().live), {0: self.read})
        self.gateways[number].follow(self.snapshots[number])

    def register(self, number, said):
        """A broker registers in parts, over the connection that it has to this gateway."""
        for part in said:
            request = replace(part, channel_id=f"g{number}/{part.broker_addr}")
            self.write_registration(number, request)
        self.said[said[0].broker_addr] = said

    def write_registration(self, number, request):
        address, gateway = request.broker_addr, self.gateways[number]
        if self.unseen[number]:
            self.follow(number)  # what others have sent counts once a snapshot shows it
        is_light = gateway.why_in_full(address, request.token, self.snapshots[number], 0) is None
        gateway.note_sign_of_life(address, request.channel_id, request.timeout_ms)
        if is_light:
            self.light += 1
            heartbeat = BrokerHeartbeat(broker_addr=address, channel_id=request.channel_id)
            self.write(heartbeat, in_full=request, by=(number, address))
        else:
            unread = gateway.sent_in_full(request, 0)
            unread.place = self.write(request, by=(number, address))
        for other, unseen in enumerate(self.unseen):
            if other != number or self.has_rivals(address):
                unseen.add(address)

    def has_rivals(self, address):
        """Return whether other addresses share the broker name: a registration of this one may concern them."""
        lease = self.job.lease(address)
        return lease is None or any(
            each.broker_name == lease.broker_name and each.broker_addr != address
            for each in self.job.view().live.values()
        )

    def end(self, number, address, *, is_closed):
        gateway = self.gateways[number]
        channel_id = f"g{number}/{address}"
        if is_closed and not gateway.closed(channel_id):
            return
        record = (
            ChannelClosed(broker_addr=address, channel_id=channel_id)
            if is_closed
            else UnregisterBroker(broker_addr=address)
        )
        gateway.sent_end(address).place = self.write(record, by=(number, address))
        for unseen in self.unseen:
            unseen.add(address)


def shown(registry):
    """The rows of all tables, without what signs of life change, and without tokens."""
    tables = contents(registry.view())
    live = [
        lease._replace(last_update_timestamp=0, clock_millis=0, tokens=(), channels=dict.fromkeys(lease.channels))
        for lease in tables["live"].values()
    ]
    return tables | {"live": live}


parts = st.lists(registrations.map(with_token), min_size=1, max_size=3).map(
    lambda found: [
        with_token(replace(found[0], topic_config_table=each.topic_config_table, token=None)) for each in found
    ]
)
steps = st.one_of(
    st.tuples(st.just("say"), st.integers(0, 1), parts),
    st.tuples(st.just("say"), st.integers(0, 1), parts),
    st.tuples(st.just("again"), st.integers(0, 1), st.sampled_from(ADDRESSES)),
    st.tuples(st.just("again"), st.integers(0, 1), st.sampled_from(ADDRESSES)),
    st.tuples(st.just("again"), st.integers(0, 1), st.sampled_from(ADDRESSES)),
    st.tuples(st.just("follow"), st.integers(0, 1), st.none()),
    st.tuples(st.just("close"), st.integers(0, 1), st.sampled_from(ADDRESSES)),
    st.tuples(st.just("leave"), st.integers(0, 1), st.sampled_from(ADDRESSES)),
    st.tuples(st.just("command"), st.integers(0, 1), commands),
)


def do(site, step):
    match step:
        case "say", number, said:
            site.register(number, said)
        case "again", number, address:
            if address in site.said:
                site.register(number, site.said[address])
        case "follow", number, _:
            site.follow(number)
        case "close" | "leave", number, address:
            site.end(number, address, is_closed=step[0] == "close")
        case "command", _, command:
            site.write(command)


@examples(1_200)
@given(st.lists(steps, min_size=1, max_size=25), st.sampled_from([NamesrvSettings(), TOPICS_GO]))
def test_e10_thinning_loses_nothing(taken, settings):
    site = Site(settings)
    for step in taken:
        do(site, step)
        assert shown(site.job) == shown(site.full), step
