"""Users, and the rules by which a request is known to come from one of them.

The signature of a request counts first, then the connection's client certificate, then the peer's address. Nothing here
reads a file, a socket or a clock.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address

from namesrv_stream.wire.remoting_command import RemotingCommand
from namesrv_stream.wire.signature import access_key_of, is_signed_with

Network = IPv4Network | IPv6Network


class Role(StrEnum):
    """The role of a user, which decides what the user may send. No role includes another."""

    READER = "reader"
    BROKER = "broker"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The clusters, broker names and broker addresses that a user with the broker role may speak for.

    They are patterns, in which `*` stands for any text.
    """

    clusters: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class User:
    """A person or program that the history can name. `bounds` apply to the broker role alone."""

    name: str
    role: Role
    bounds: Bounds = Bounds()


@dataclass(frozen=True, slots=True)
class Credentials:
    """The proofs by which a user is known: a pair of keys, names in client certificates, address ranges."""

    access_key: str = ""
    secret_key: bytes = field(default=b"", repr=False)
    certificates: tuple[str, ...] = ()
    networks: tuple[Network, ...] = ()


@dataclass(frozen=True, slots=True)
class Origin:
    """The connection that a request came over.

    `address`: the peer's IP address, None if the connection does not prove it. `certificate_names`: the subject
    alternative names of the peer's certificate, which the gateway has verified, each as `DNS:name`.
    """

    address: str | None = None
    certificate_names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Sender:
    """The user who sent a request; or None, and the reason why the user is unknown."""

    user: User | None
    reason: str = ""


class Users:
    """All users with their credentials. No two users share a key, a certificate name or an address range."""

    def __init__(self, known: Iterable[tuple[User, Credentials]] = ()) -> None:
        self._by_access_key: dict[str, tuple[User, bytes]] = {}
        self._by_certificate: dict[str, User] = {}
        self._by_network: dict[Network, User] = {}
        for user, credentials in known:
            if credentials.access_key:
                self._by_access_key[credentials.access_key] = user, credentials.secret_key
            self._by_certificate |= dict.fromkeys(credentials.certificates, user)
            self._by_network |= dict.fromkeys(credentials.networks, user)

    def sender(self, command: RemotingCommand, origin: Origin) -> Sender:
        """Return the sender of a request. A signed request comes from its signer, whatever its connection proves."""
        access_key = access_key_of(command)
        if access_key is not None:
            return self._signer(command, access_key)
        user = self._of_certificate(origin.certificate_names) or self._of_address(origin.address)
        return Sender(user, "" if user else "it is not signed")

    def holder_of(self, access_key: str, secret_key: bytes) -> Sender:
        """Return the user who has these keys. The reason is the same for an unknown key and a wrong secret."""
        user, expected = self._by_access_key.get(access_key, (None, b""))
        if user is None or not hmac.compare_digest(expected, secret_key):
            return Sender(None, "its accessKey is not known, or its secretKey is wrong")
        return Sender(user)

    def _signer(self, command: RemotingCommand, access_key: str) -> Sender:
        """Return the signer. The reason is the same for an unknown key and a wrong signature, to reveal no key."""
        user, secret_key = self._by_access_key.get(access_key, (None, b""))
        if user is None or not is_signed_with(command, secret_key):
            return Sender(None, "its AccessKey is not known, or its Signature is wrong")
        return Sender(user)

    def _of_certificate(self, names: frozenset[str]) -> User | None:
        found = sorted(names & self._by_certificate.keys())
        return self._by_certificate[found[0]] if found else None

    def _of_address(self, address: str | None) -> User | None:
        """Return the user of the smallest range that has the address."""
        if address is None or not self._by_network:
            return None
        try:
            ip = ip_address(address)
        except ValueError:  # a host name, which proves nothing
            return None
        if isinstance(ip, IPv6Address) and ip.ipv4_mapped:  # an IPv4 peer of a socket that listens at ::
            ip = ip.ipv4_mapped
        around = [network for network in self._by_network if ip in network]
        return self._by_network[max(around, key=lambda network: network.prefixlen)] if around else None


def is_within(text: str, patterns: Iterable[str]) -> bool:
    """Return whether one of the patterns matches the whole text."""
    return any(_matcher(pattern).fullmatch(text) for pattern in patterns)


@lru_cache(maxsize=10_000)
def _matcher(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
