"""RocketMQ's signature of a request, which proves its sender.

Clients, mqadmin and brokers put the fields AccessKey and Signature into extFields. The signature is the base64 of an
HMAC-SHA1 with the secret key that belongs to the AccessKey. It covers the values of all fields except Signature, in the
order of their keys, and then the body. It covers neither the request code nor a time, so only TLS keeps others from
reading a signed request and sending it again.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterator, Mapping

import msgspec

from namesrv_stream.wire.remoting_command import RemotingCommand

ACCESS_KEY = "AccessKey"
SIGNATURE = "Signature"
ZONE_FIELDS = frozenset({"__ZONE_NAME", "__ZONE_MODE"})
"""Fields that clients and mqadmin add after signing, and brokers before it. So both forms are tried."""


def access_key_of(command: RemotingCommand) -> str | None:
    """Return the AccessKey of a request; None if the request is not signed."""
    return (command.ext_fields or {}).get(ACCESS_KEY)


def is_signed_with(command: RemotingCommand, secret_key: bytes) -> bool:
    """Return whether the request's signature was made with this secret key."""
    given = (command.ext_fields or {}).get(SIGNATURE, "").encode()
    return any(
        hmac.compare_digest(_signature(fields, command.body, secret_key), given) for fields in _signed_fields(command)
    )


def signed(command: RemotingCommand, access_key: str, secret_key: bytes) -> RemotingCommand:
    """Return the request as a peer with these keys sends it."""
    fields = {**(command.ext_fields or {}), ACCESS_KEY: access_key}
    signature = _signature(fields, command.body, secret_key).decode()
    return msgspec.structs.replace(command, ext_fields=fields | {SIGNATURE: signature})


def _signed_fields(command: RemotingCommand) -> Iterator[Mapping[str, str]]:
    """Yield the fields that the sender may have signed: all, or all but those of the zone."""
    fields = {name: value for name, value in (command.ext_fields or {}).items() if name != SIGNATURE}
    yield fields
    if fields.keys() & ZONE_FIELDS:
        yield {name: value for name, value in fields.items() if name not in ZONE_FIELDS}


def _signature(fields: Mapping[str, str], body: bytes, secret_key: bytes) -> bytes:
    values = "".join(fields[name] for name in sorted(fields))
    digest = hmac.new(secret_key, values.encode(), "sha1")
    digest.update(body)
    return base64.b64encode(digest.digest())
