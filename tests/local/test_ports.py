import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from namesrv_stream.local.ports import HOST, PortInUseError, check_free, free_ports

FOR_CONNECTIONS = Path("/proc/sys/net/ipv4/ip_local_port_range")


@pytest.mark.skipif(not FOR_CONNECTIONS.exists(), reason="only Linux shows which ports it gives to connections")
def test_no_outgoing_connection_can_get_a_port_that_was_found_for_a_server():
    lowest = int(FOR_CONNECTIONS.read_text().split()[0])
    assert all(free_ports(3) + 2 < lowest for _ in range(100))


def test_a_port_is_found_once_although_nothing_listens_there_yet():
    found = [free_ports(1) for _ in range(1000)]
    assert len(set(found)) == len(found)


def test_a_port_that_is_in_use_is_not_found():
    with ExitStack() as held:
        in_use = free_ports(2)
        held.enter_context(socket.create_server((HOST, in_use + 1)))
        assert not {first for _ in range(13_000) if (first := free_ports(2)) in (in_use, in_use + 1)}


def test_a_port_in_use_is_named_with_who_was_to_get_it():
    port = free_ports(1)
    check_free(port, "Kafka")
    with (
        socket.create_server((HOST, port)),
        pytest.raises(PortInUseError, match=f"port {port} of 127.0.0.1 is in use, so Kafka cannot have it"),
    ):
        check_free(port, "Kafka")
