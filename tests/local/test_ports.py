import socket

import pytest

from namesrv_stream.errors import NamesrvError
from namesrv_stream.tools.local import ports
from namesrv_stream.tools.local.ports import HOST, check_free, free_ports

FIRST_FOR_CONNECTIONS = 32_768  # Linux' own default; macOS begins at 49,152


def test_by_default_no_outgoing_connection_can_get_a_port_that_was_found_for_a_server():
    found = [free_ports(3) + 2 for _ in range(100)]
    assert max(found) < FIRST_FOR_CONNECTIONS


def test_ports_are_found_that_are_consecutive_and_none_in_use(monkeypatch):
    first = free_ports(4)
    in_use = first + 1
    looked_at = [29_999, 20_000, first, in_use, in_use, first + 2, first + 2, first + 3]
    monkeypatch.setattr(ports, "_in_turn", iter(looked_at))
    with socket.create_server((HOST, in_use)):
        assert free_ports(2) == first + 2


def test_a_port_in_use_is_named_with_who_was_to_get_it():
    port = free_ports(1)
    check_free(port, "Kafka")
    with (
        socket.create_server((HOST, port)),
        pytest.raises(NamesrvError, match=f"port {port} of 127.0.0.1 is in use, so Kafka cannot have it"),
    ):
        check_free(port, "Kafka")
