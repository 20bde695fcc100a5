"""The port of a broker, to which name servers send their notices."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

from namesrv_stream.tools.local.process import HOST
from namesrv_stream.wire.frame import FrameDecoder
from namesrv_stream.wire.remoting_command import RemotingCommand


class Listener:
    """A port that listens within a `with`; `received` has all requests so far, from all connections."""

    def __init__(self) -> None:
        self.received: list[RemotingCommand] = []
        self._socket = socket.create_server((HOST, 0))
        self._thread = threading.Thread(target=self._accept, name="listener", daemon=True)

    @property
    def address(self) -> str:
        """The port's host:port."""
        return f"{HOST}:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # ends `accept`, which closing alone does not
        self._socket.close()
        self._thread.join()

    def _accept(self) -> None:
        with suppress(OSError):  # it has been closed
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._read, args=[connection], daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        decoder = FrameDecoder()
        with connection, suppress(OSError):
            while data := connection.recv(1 << 16):
                self.received += decoder.feed(data)
