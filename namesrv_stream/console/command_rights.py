"""Decide whether an operator may send a command over HTTP."""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Mapping

import msgspec

from namesrv_stream.access.rights import NotAllowedError, Rights
from namesrv_stream.access.users import Sender, Users
from namesrv_stream.answers.command_sending import OperatorCommand
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.record_types import LiftExpiryGuard, UpdateNamesrvConfig
from namesrv_stream.wire.bodies import encode_properties
from namesrv_stream.wire.codes import RequestCode
from namesrv_stream.wire.remoting_command import RemotingCommand

log = logging.getLogger(__name__)


class Admission:
    """Decides who may send a command."""

    def __init__(self, settings: NamesrvSettings) -> None:
        """Read the users file.

        Raises SettingError if other machines can connect and auth.mode is not set, or if the file cannot be used.
        """
        self._rights = Rights(settings, "console.bindAddress", settings.console_bind_address)

    def admitted(self, command: OperatorCommand, authorization: str | None, peer: str) -> OperatorCommand:
        """Return the command with the name of its sender. Raises NotAllowedError.

        `authorization`: the header Authorization, HTTP Basic with an accessKey and its secretKey.
        """
        sender = self._sender(authorization)
        try:
            observed = self._rights.check(_as_request(command), sender, {})
        except NotAllowedError as error:
            log.warning("console: %s is refused: %s", peer, error)
            raise
        if observed is not None:
            log.warning("console: %s would be refused: %s", peer, observed)
        name = f"{sender.user.name}@{peer}" if sender.user else peer
        return msgspec.structs.replace(command, requested_by=name)

    def _sender(self, authorization: str | None) -> Sender:
        self._rights.reload()
        if self._rights.users is None:
            return Sender(None, "this console has no users file")
        if authorization is None:
            return Sender(None, "it has no name and password")
        return _holder(self._rights.users, authorization)


def _as_request(command: OperatorCommand) -> RemotingCommand:
    """Return the command as RocketMQ's request, for which the rights are defined.

    RocketMQ has no request that lifts the guard. That needs the right to change the guard's settings.
    """
    properties: Mapping[str, str] = getattr(command, "properties", {})
    kind = UpdateNamesrvConfig if isinstance(command, LiftExpiryGuard) else type(command)
    code = RequestCode[str(kind.__struct_config__.tag)]
    return RemotingCommand(code=code, body=encode_properties(properties))


def _holder(users: Users, authorization: str) -> Sender:
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return Sender(None, "it has no HTTP Basic name and password")
    try:
        name, _, password = base64.b64decode(encoded, validate=True).partition(b":")
        return users.holder_of(name.decode(), password)
    except (binascii.Error, UnicodeDecodeError):
        return Sender(None, "its HTTP Basic header cannot be read")
