"""Decide which right a request needs in each mode of authentication, and check that its sender has it.

Lookups need no right in any mode. An address that is open to other machines needs an explicit auth.mode.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from namesrv_stream.access.users import Role, Sender, User, Users, is_within, users_file
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import BadRequestError, NamesrvError, SettingError
from namesrv_stream.rules.rows import LiveRow
from namesrv_stream.wire.bodies import decode_properties, decode_queue_datas
from namesrv_stream.wire.codes import RequestCode
from namesrv_stream.wire.headers import request_name
from namesrv_stream.wire.remoting_command import RemotingCommand


def check_exposure(settings: NamesrvSettings, key: str, bind_address: str) -> None:
    """Raise SettingError if other machines can connect to the address and auth.mode is not set explicitly.

    `key` is the setting that has the address.
    """
    is_said = "auth_mode" in settings.model_fields_set or settings.auth_mode != "off"
    if not is_said and not is_loopback(bind_address):
        raise SettingError(
            "auth.mode",
            f"is not set, and {key} {bind_address} lets other machines connect",
            "Set auth.usersPath, and auth.mode to observe, operators or writes. Set auth.mode=off only if every client "
            "that reaches this address may change routes.",
        )


def is_loopback(bind_address: str) -> bool:
    """Return whether only programs on this machine can connect to the address."""
    try:
        return ipaddress.ip_address(bind_address).is_loopback
    except ValueError:
        return bind_address == "localhost"


class TrustedProxies:
    """The proxies and load balancers whose headers are trusted. `networks`: address ranges, separated by commas."""

    def __init__(self, networks: str) -> None:
        self._networks = [ipaddress.ip_network(each, strict=False) for each in networks.split(",") if each]

    def __contains__(self, host: str) -> bool:
        if not self._networks:
            return False  # without parsing the address, which would take half the time of a new connection
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self._networks)


def peer_of(peername: object) -> tuple[str, str]:
    """Return the host, by which limits count, and host with port, which logs name; `?` if it is no internet address.

    With bindAddress `::` an IPv4 address comes as ::ffff:10.0.0.1, and counts as the same host as 10.0.0.1.
    """
    match peername:
        case (str(host), int(port), *_):
            host = host.removeprefix("::ffff:") if "." in host else host
            return host, f"{host}:{port}"
    return "?", "?"


Mode = Literal["operators", "writes"]
"""The modes in which requests are refused."""

_ADMIN, _BROKER = frozenset({Role.ADMIN}), frozenset({Role.BROKER})
_OPERATORS: Mapping[int, frozenset[Role]] = {
    RequestCode.PUT_KV_CONFIG: _ADMIN,
    RequestCode.DELETE_KV_CONFIG: _ADMIN,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: _ADMIN,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: _ADMIN,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: _ADMIN,
    RequestCode.RETIRE_BROKER: _ADMIN,
    RequestCode.UPDATE_NAMESRV_CONFIG: _ADMIN,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: _ADMIN | _BROKER,
}
_BROKERS: Mapping[int, frozenset[Role]] = {
    RequestCode.REGISTER_BROKER: _BROKER,
    RequestCode.UNREGISTER_BROKER: _BROKER,
    RequestCode.QUERY_DATA_VERSION: _BROKER,
    RequestCode.BROKER_HEARTBEAT: _BROKER,
}
_NEEDED: Mapping[Mode, Mapping[int, frozenset[Role]]] = {"operators": _OPERATORS, "writes": {**_OPERATORS, **_BROKERS}}

_SETTINGS = frozenset({RequestCode.UPDATE_NAMESRV_CONFIG})
WRITING_CODES = frozenset(_NEEDED["writes"])
"""All requests that change the registry or keep a lease alive."""

SETTINGS_OF_ADMINS = frozenset(
    {
        "needWaitForService",
        "waitSecondsForService",
        "deleteTopicWithBrokerRegistration",
        "notifyMinBrokerIdChanged",
    }
)
"""Settings with which one UPDATE_NAMESRV_CONFIG can stop all lookups, remove topics, or let all gateways connect to
addresses that peers have registered."""

MAX_READ_BYTES = 64 * 1024
"""Limit of a body that is read to decide on a right. A larger body is refused unread, except from an admin."""


MAX_SHOWN_CHARS = 128
"""Limit of a name in answers and in the log, because a peer may have invented it."""


class NotAllowedError(NamesrvError):
    """The sender of a request lacks a right. Answer with NO_PERMISSION. `user`: None if the sender is unknown."""

    def __init__(self, code: int, sender: Sender, missing: str, reason: str = "") -> None:
        self.request = request_name(code)
        self.user = sender.user.name if sender.user else None
        self.missing = missing
        super().__init__(
            f"{self.request} needs {missing}: {reason or _reason(sender)}. Send it with the keys of a user who has "
            "that right, or have the right added to the users file of this gateway or console."
        )


class Rights:
    """The rights that senders need at one port, by auth.mode and the users file.

    `codes` are the requests that are checked. There are none if everybody may send everything.
    """

    def __init__(self, settings: NamesrvSettings, key: str, bind_address: str) -> None:
        """Read the users file. `key` is the setting that has the port's address.

        Raises SettingError if other machines can connect and auth.mode is not set, or if the file cannot be used.
        """
        mode, is_local = settings.auth_mode, is_loopback(bind_address)
        check_exposure(settings, key, bind_address)
        self._file = None if mode == "off" else users_file(Path(settings.auth_users_path))
        self._mode: Mode | None = None if mode == "off" else "operators" if mode == "operators" else "writes"
        self._is_observing = mode == "observe"
        self.codes: frozenset[int] = WRITING_CODES if self._file else frozenset() if is_local else _SETTINGS

    @property
    def users(self) -> Users | None:
        """The users of the file, None if no file is used."""
        return self._file.value if self._file else None

    def reload(self) -> None:
        """Read the users file again if it has changed."""
        if self._file:
            self._file.reload()

    def check(self, command: RemotingCommand, sender: Sender, live: Mapping[str, LiveRow]) -> NotAllowedError | None:
        """Raise NotAllowedError if the sender lacks a right. `live`: leases by broker address.

        In the mode observe the error is returned and not raised, except for SETTINGS_OF_ADMINS.
        """
        if command.code in _SETTINGS and command.code in self.codes:
            check_settings(command, sender)
        try:
            if self._mode is not None:
                check_right(self._mode, command, sender, live)
        except NotAllowedError as error:
            if not self._is_observing:
                raise
            return error
        return None


def check_right(mode: Mode, command: RemotingCommand, sender: Sender, live: Mapping[str, LiveRow]) -> None:
    """Raise NotAllowedError if the mode requires a right that the sender lacks. `live`: leases by broker address."""
    roles = _NEEDED[mode].get(command.code)
    if roles is None:
        return
    if sender.user is None or sender.user.role not in roles:
        raise NotAllowedError(command.code, sender, f"the {' or '.join(sorted(roles))} role")
    if sender.user.role is Role.BROKER:
        _check_bounds(command, sender, sender.user, live)


def check_settings(command: RemotingCommand, sender: Sender) -> None:
    """Raise NotAllowedError if an UPDATE_NAMESRV_CONFIG changes SETTINGS_OF_ADMINS and its sender is no admin."""
    if sender.user is not None and sender.user.role is Role.ADMIN:
        return
    try:
        guarded = SETTINGS_OF_ADMINS & decode_properties(_read_body(command, sender)).keys()
    except BadRequestError:
        return  # such a request changes nothing, and is answered with an error
    if guarded:
        raise NotAllowedError(command.code, sender, f"the admin role, for {', '.join(sorted(guarded))}")


def _check_bounds(command: RemotingCommand, sender: Sender, user: User, live: Mapping[str, LiveRow]) -> None:
    for kind, claimed, allowed in _claims(command, sender, user, live):
        if not is_within(claimed, allowed):
            reason = f"user {user.name} may only act for {', '.join(allowed)}"
            raise NotAllowedError(command.code, sender, f"the right to {kind} {claimed[:MAX_SHOWN_CHARS]!r}", reason)


def _claims(
    command: RemotingCommand, sender: Sender, user: User, live: Mapping[str, LiveRow]
) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield each cluster, broker name and address that a broker's request concerns: kind, text, the user's patterns.

    A request concerns the names in it and, if its address has a lease, that lease's cluster and name.
    """
    if command.code == RequestCode.REGISTER_TOPIC_IN_NAMESRV:
        for name in _brokers_of_topic(_read_body(command, sender)):
            yield "broker name", name, user.names
        return
    fields = command.ext_fields or {}
    address = fields.get("brokerAddr", "")
    yield "cluster", fields.get("clusterName", ""), user.clusters
    yield "broker name", fields.get("brokerName", ""), user.names
    yield "broker address", address, user.addresses
    if (held := live.get(address)) is not None:
        yield "cluster", held.cluster_name, user.clusters
        yield "broker name", held.broker_name, user.names


def _brokers_of_topic(body: bytes) -> list[str]:
    try:
        return [queues.broker_name for queues in decode_queue_datas(body)]
    except BadRequestError:
        return []  # such a request changes nothing, and is answered with an error


def _read_body(command: RemotingCommand, sender: Sender) -> bytes:
    if len(command.body) > MAX_READ_BYTES:
        raise NotAllowedError(command.code, sender, f"the admin role, for a body of over {MAX_READ_BYTES} bytes")
    return command.body[:]


def _reason(sender: Sender) -> str:
    return f"user {sender.user.name} has the {sender.user.role} role" if sender.user else sender.reason
