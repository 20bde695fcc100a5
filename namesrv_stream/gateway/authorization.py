"""Decides whether the sender of a request may send it, from the request and its connection.

This is decided before the request is handled. Only the bodies of 217 and 318 are decoded for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from namesrv_stream.access.addresses import check_exposure, is_loopback
from namesrv_stream.access.rights import WRITING_CODES, Mode, NotAllowedError, check_right, check_settings
from namesrv_stream.access.users import Sender, Users, UsersFile
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.gateway.connection import Connection
from namesrv_stream.gateway.gateway_metrics import Metrics
from namesrv_stream.rules.rows import LiveRow
from namesrv_stream.wire.codes import RequestCode
from namesrv_stream.wire.remoting_command import RemotingCommand

log = logging.getLogger(__name__)

LOG_AGAIN_AFTER_S = 60.0
_MAX_LOGGED = 1_000
_SETTINGS = frozenset({RequestCode.UPDATE_NAMESRV_CONFIG})


class Authorization:
    """Admits or refuses each request whose code is in `checked`. Lives in the event loop.

    `checked` is empty if everybody may send everything. It never has the code of a lookup, so lookups cost nothing
    here in any mode.
    """

    def __init__(self, settings: NamesrvSettings, metrics: Metrics) -> None:
        """Read the users file.

        Raises SettingError if other machines can connect and auth.mode is not set, or if the file cannot be used.
        """
        mode, is_local = settings.auth_mode, is_loopback(settings.bind_address)
        check_exposure(settings, "bindAddress", settings.bind_address)
        self._metrics = metrics
        self._file = None if mode == "off" else UsersFile(Path(settings.auth_users_path))
        self._mode: Mode | None = None if mode == "off" else "operators" if mode == "operators" else "writes"
        self._is_observing = mode == "observe"
        self._logged: dict[tuple[str, str | None, str], float] = {}
        self.checked: frozenset[int] = WRITING_CODES if self._file else frozenset() if is_local else _SETTINGS

    def reload(self) -> None:
        """Read the users file again if it has changed."""
        if self._file:
            self._file.reload()

    def admitted(
        self, command: RemotingCommand, connection: Connection, live: Mapping[str, LiveRow]
    ) -> RemotingCommand:
        """Return the request, with its `sender` if that is a known user. Raises NotAllowedError.

        `live`: leases by broker address.
        """
        sender = (self._file.users if self._file else Users()).sender(command, connection.origin)
        try:
            if command.code in _SETTINGS:
                check_settings(command, sender)
            if self._mode is not None:
                self._check_right(self._mode, command, sender, connection, live)
        except NotAllowedError as error:
            self._note(error, connection, "refused")
            raise
        if sender.user is None:
            return command
        return msgspec.structs.replace(command, sender=f"{sender.user.name}@{connection.peer}")

    def _check_right(
        self, mode: Mode, command: RemotingCommand, sender: Sender, connection: Connection, live: Mapping[str, LiveRow]
    ) -> None:
        try:
            check_right(mode, command, sender, live)
        except NotAllowedError as error:
            if not self._is_observing:
                raise
            self._note(error, connection, "observed")

    def _note(self, error: NotAllowedError, connection: Connection, effect: str) -> None:
        """Count a request whose sender lacks a right, and log it once a minute for each user, request and host."""
        self._metrics.not_allowed(error.request, error.user, effect)
        about = (error.request, error.user, connection.origin.address or connection.peer)
        now_s = time.monotonic()
        if now_s - self._logged.get(about, -LOG_AGAIN_AFTER_S) < LOG_AGAIN_AFTER_S:
            return
        if len(self._logged) >= _MAX_LOGGED:
            self._logged.clear()
        self._logged[about] = now_s
        log.warning(
            "request of %s %s: %s", connection.peer, "is refused" if effect == "refused" else "would be refused", error
        )
