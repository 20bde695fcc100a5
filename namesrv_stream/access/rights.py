"""Decides which right a request needs in each mode of authentication, and checks that its sender has it.

Lookups need no right in any mode. Nothing here reads a file, a socket or a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from namesrv_stream.access.users import Role, Sender, User, is_within
from namesrv_stream.errors import NamesrvError
from namesrv_stream.rules.rows import LiveRow
from namesrv_stream.wire.bodies import decode_properties, decode_queue_datas
from namesrv_stream.wire.codes import RequestCode
from namesrv_stream.wire.headers import request_name
from namesrv_stream.wire.remoting_command import RemotingCommand
from namesrv_stream.wire.wire_errors import BadRequestError

Mode = Literal["operators", "writes"]
"""The modes in which requests are refused."""

_ADMIN, _BROKER = frozenset({Role.ADMIN}), frozenset({Role.BROKER})
_OPERATORS: Mapping[int, frozenset[Role]] = {
    RequestCode.PUT_KV_CONFIG: _ADMIN,
    RequestCode.DELETE_KV_CONFIG: _ADMIN,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: _ADMIN,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: _ADMIN,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: _ADMIN,
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
"""Limit of a body that is read to decide on the right. A larger body is refused unread."""


MAX_SHOWN_CHARS = 128
"""Limit of a name that a peer may have made up, in answers and in the log."""


class NotAllowedError(NamesrvError):
    """The sender of a request lacks a right: answer it with NO_PERMISSION. `user`: None if the sender is unknown."""

    def __init__(self, code: int, sender: Sender, missing: str, reason: str = "") -> None:
        self.request = request_name(code)
        self.user = sender.user.name if sender.user else None
        self.missing = missing
        super().__init__(
            f"{self.request} needs {missing}: {reason or _reason(sender)}. Send it with the keys of a user who has "
            "that right, or have the right added to the users file of this name server."
        )


def check_right(mode: Mode, command: RemotingCommand, sender: Sender, live: Mapping[str, LiveRow]) -> None:
    """Raise NotAllowedError if the mode requires a right that the sender lacks. `live`: leases by broker address."""
    roles = _NEEDED[mode].get(command.code)
    if roles is None:
        return
    if sender.user is None or sender.user.role not in roles:
        raise NotAllowedError(command.code, sender, f"the {' or '.join(sorted(roles))} role")
    if sender.user.role is Role.BROKER:
        _check_bounds(command, sender, sender.user, _claim(command, sender, live))


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


class _Claim(NamedTuple):
    """The clusters, broker names and broker addresses that a broker's request concerns."""

    clusters: Iterable[str]
    names: Iterable[str]
    addresses: Iterable[str]


def _claim(command: RemotingCommand, sender: Sender, live: Mapping[str, LiveRow]) -> _Claim:
    """Return what a request concerns: what it names and, if its address has a lease, that lease's cluster and name."""
    if command.code == RequestCode.REGISTER_TOPIC_IN_NAMESRV:
        return _Claim((), _brokers_of_topic(_read_body(command, sender)), ())
    fields = command.ext_fields or {}
    cluster, name, address = (fields.get(field, "") for field in ("clusterName", "brokerName", "brokerAddr"))
    held = live.get(address)
    if held is None:
        return _Claim((cluster,), (name,), (address,))
    return _Claim((cluster, held.cluster_name), (name, held.broker_name), (address,))


def _brokers_of_topic(body: bytes) -> list[str]:
    try:
        return [queues.broker_name for queues in decode_queue_datas(body)]
    except BadRequestError:
        return []  # such a request changes nothing, and is answered with an error


def _check_bounds(command: RemotingCommand, sender: Sender, user: User, claim: _Claim) -> None:
    for kind, claimed, allowed in (
        ("cluster", claim.clusters, user.clusters),
        ("broker name", claim.names, user.names),
        ("broker address", claim.addresses, user.addresses),
    ):
        for each in claimed:
            if not is_within(each, allowed):
                reason = f"user {user.name} may speak for {', '.join(allowed)} alone"
                raise NotAllowedError(command.code, sender, f"the right to {kind} {each[:MAX_SHOWN_CHARS]!r}", reason)


def _read_body(command: RemotingCommand, sender: Sender) -> bytes:
    if len(command.body) > MAX_READ_BYTES:
        raise NotAllowedError(command.code, sender, f"the admin role, for a body of over {MAX_READ_BYTES} bytes")
    return command.body[:]


def _reason(sender: Sender) -> str:
    return f"user {sender.user.name} has the {sender.user.role} role" if sender.user else sender.reason
