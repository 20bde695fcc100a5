"""Peers that ask for more than they read."""

import contextlib
import socket

from namesrv_stream.wire.remoting_command import RemotingCommand, encode_command

EVIL, GOOD = "127.0.0.66", "127.0.0.1"
LOOKUP = encode_command(RemotingCommand(code=105, opaque=1, ext_fields={"topic": "TopicA"}))


@contextlib.contextmanager
def greedy_peer(port, host=EVIL):
    """Connect a peer that reads nothing: only the kernel's buffer takes answers."""
    with socket.socket() as greedy:
        greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        greedy.bind((host, 0))
        greedy.connect(("127.0.0.1", port))
        yield greedy
