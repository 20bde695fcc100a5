import socket

import pytest

from namesrv_stream.errors import NamesrvError
from namesrv_stream.tools.local import process
from namesrv_stream.tools.local.process import HOST, check_free, free_ports


def test_ports_are_found_that_are_consecutive_and_that_nobody_uses_or_has_reserved(monkeypatch):
    reserved = free_ports(1)
    in_use, first = reserved + 2, reserved + 4
    looked_at = [29_999, 20_000, reserved, reserved + 1, in_use, in_use + 1, first, first + 1]
    monkeypatch.setattr(process, "_in_turn", iter(looked_at))
    with socket.create_server((HOST, in_use)):
        assert free_ports(2) == first


def test_a_port_in_use_is_named_with_who_was_to_get_it():
    port = free_ports(1)
    check_free(port, "Kafka")
    with (
        socket.create_server((HOST, port)),
        pytest.raises(NamesrvError, match=f"port {port} of 127.0.0.1 is in use, so Kafka cannot have it"),
    ):
        check_free(port, "Kafka")
