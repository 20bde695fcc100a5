"""A connection whose peer is the test itself: bytes without a socket, and a time that the test sets."""

from __future__ import annotations

import asyncio

from namesrv_stream.gateway.connection import Connection


class Transport(asyncio.Transport):
    """Keeps what is written. `takes_answers` False: the peer reads nothing."""

    def __init__(self, host="127.0.0.1", port=5000):
        super().__init__({"peername": (host, port)})
        self.written = bytearray()
        self.is_reading_paused = False
        self._is_closing = False

    def write(self, data):
        self.written += data  # a copy, as a socket makes one

    def get_write_buffer_size(self):
        return 0

    def pause_reading(self):
        self.is_reading_paused = True

    def resume_reading(self):
        self.is_reading_paused = False

    def is_closing(self):
        return self._is_closing

    def close(self):
        self._is_closing = True

    abort = close


def connected(requests, connections, transport=None):
    """A connection that is open."""
    connection = Connection(requests, connections)
    connection.connection_made(transport or Transport())
    return connection


class Clock(asyncio.SelectorEventLoop):
    """An event loop whose time a test sets."""

    now_s = 0.0

    def time(self):
        return self.now_s
