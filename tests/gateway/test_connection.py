"""One connection without a socket: when its requests are answered, and when its memory is free."""

import asyncio

import pytest

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.gateway import connection as connection_module
from namesrv_stream.gateway.connection import WHOLE_LIMIT_S, Connections
from namesrv_stream.gateway.fair_shares import MOMENT_S
from namesrv_stream.gateway.inbound import ConnectionStates, FlowEvent, State
from namesrv_stream.wire.remoting_command import RemotingCommand, encode_command
from tests.certificates import make_certificate
from tests.gateway.transport import Transport, connected

REQUEST = encode_command(RemotingCommand(code=106))
HEAVY, LIGHT = "10.0.0.1", "10.0.0.2"


class Answering:
    """Answers each request with its own bytes."""

    def known(self, content):
        return None

    def answer(self, command, connection):
        return encode_command(command)

    def connection_lost(self, connection):
        pass


def open_connections(**given):
    return Connections(NamesrvSettings(**given))


async def until(condition):
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0)


async def test_a_peer_that_takes_its_answers_late_is_read_from_again_also_after_its_last_request(monkeypatch):
    monkeypatch.setattr(connection_module, "_TURN_S", -1.0)  # its turn ends with each request

    class Full(Answering):
        def answer(self, command, connection):
            connection.pause_writing()
            return super().answer(command, connection) * 50

    transport = Transport(HEAVY)
    connection = connected(Full(), open_connections(), transport)
    connection.data_received(REQUEST)
    for _ in range(5):
        await asyncio.sleep(0)
    assert (transport.written, transport.is_reading_paused) == (50 * REQUEST, True)
    connection.resume_writing()
    await until(lambda: not transport.is_reading_paused)


@pytest.mark.parametrize("is_answered_first", [True, False])
async def test_a_connection_that_is_held_for_two_reasons_is_read_from_when_both_are_over(is_answered_first):

    class Alone(Answering):
        def answer(self, command, connection):
            self.command = command
            connection.track_pending(command, alone=True)

    requests, transport = Alone(), Transport(HEAVY)
    connection = connected(requests, open_connections(), transport)
    connection.data_received(REQUEST)
    connection.pause_writing()
    ends = [lambda: connection.reply_frame(requests.command, REQUEST), connection.resume_writing]
    for end in ends if is_answered_first else reversed(ends):
        assert transport.is_reading_paused
        end()
        await asyncio.sleep(0)
    assert not transport.is_reading_paused
    assert transport.written == REQUEST


@pytest.mark.parametrize("event", FlowEvent)
@pytest.mark.parametrize(
    "before", [[], [FlowEvent.TURN_ENDS], [FlowEvent.ANSWERS_PILE_UP, FlowEvent.UNANSWERED_ARE_MANY]]
)
def test_a_connection_that_closes_does_nothing_else_any_more(before, event):
    states = ConnectionStates()
    for each in (*before, FlowEvent.CLOSE, event):
        states.on(each)
    assert states.state is State.CLOSING


async def test_a_heavy_host_is_answered_in_a_later_round_and_others_at_once(monkeypatch):
    monkeypatch.setattr(connection_module, "_TURN_S", 30.0)  # also on a busy machine no turn ends by its time
    connections = open_connections()
    transports = {host: Transport(host) for host in (HEAVY, LIGHT)}
    opened = {host: connected(Answering(), connections, each) for host, each in transports.items()}
    loop, now_s = asyncio.get_running_loop(), asyncio.get_running_loop().time()
    with monkeypatch.context() as stopped:
        stopped.setattr(loop, "time", lambda: now_s)  # also on a busy machine no moment is over
        for connection in opened.values():
            connection.data_received(REQUEST)
        connections.shares.loop_time.spend(LIGHT, now_s, 0.0)
        connections.shares.loop_time.spend(HEAVY, now_s, 1.2 * MOMENT_S)
        for connection in opened.values():
            connection.data_received(REQUEST)
        assert (transports[HEAVY].written, transports[LIGHT].written) == (REQUEST, 2 * REQUEST)
        assert (transports[HEAVY].is_reading_paused, transports[LIGHT].is_reading_paused) == (True, False)
    await until(lambda: transports[HEAVY].written == 2 * REQUEST and not transports[HEAVY].is_reading_paused)


async def test_a_host_pays_for_what_its_connections_hold_and_a_silent_one_makes_room(monkeypatch):
    monkeypatch.setattr(connection_module, "PEER_BUFFER_BYTES", 1_000)
    connections, transports = open_connections(max_connections_per_address=2), []
    unfinished = encode_command(RemotingCommand(code=106, body=bytes(1_000)))[:400]
    for host, said in (
        *((LIGHT, unfinished), (HEAVY, unfinished), (HEAVY, unfinished)),
        *(("10.0.0.3", None), ("10.0.0.3", REQUEST), ("10.0.0.3", REQUEST), ("10.0.0.3", None)),
    ):
        transports.append(Transport(host))
        connection = connected(Answering(), connections, transports[-1])
        if said:
            connection.data_received(said)
    assert [each.is_closing() for each in transports] == [False, True, False, True, False, False, True]


@pytest.mark.parametrize("said", [b"PROX", b"\x16\x03\x01", REQUEST[:9], b""])
async def test_what_is_begun_has_a_limit_of_its_own_to_become_whole(tmp_path, said):
    make_certificate(tmp_path, "localhost")
    given = {"tls_cert_path": str(tmp_path / "cert.pem"), "tls_key_path": str(tmp_path / "key.pem")}
    connection = connected(Answering(), open_connections(**given))
    connection.data_received(said)
    now_s = asyncio.get_running_loop().time()
    for after_s, is_closed in ((WHOLE_LIMIT_S - 1, False), (WHOLE_LIMIT_S + 1, said != b""), (121, True)):
        connection.close_if_overdue(now_s + after_s, 120)
        assert connection.is_closing == is_closed
