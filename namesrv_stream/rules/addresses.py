"""Which addresses a broker can announce in vain: other machines cannot use them."""

from __future__ import annotations

from contextlib import suppress
from ipaddress import ip_address

_NO_HOST = ("", "null", "localhost")


def host_of(address: str) -> str:
    """Return the host of `host:port`, without the brackets of IPv6."""
    return address.rpartition(":")[0].strip("[]")


def is_of_one_machine(address: str) -> bool:
    """Return whether other machines cannot use `host:port`: loopback, unspecified or link-local, or port 0."""
    host, port = host_of(address), address.rpartition(":")[2]
    with suppress(ValueError):
        ip = ip_address(host)
        return ip.is_loopback or ip.is_unspecified or ip.is_link_local or port == "0"
    return host.lower() in _NO_HOST or port == "0"


def is_announced_in_vain(address: str, peer_host: str) -> bool:
    """Return whether a broker announces such an address, and connects from another machine than this one."""
    if not is_of_one_machine(address) or peer_host == host_of(address):
        return False
    with suppress(ValueError):
        return not ip_address(peer_host).is_loopback
    return peer_host not in ("?", "localhost")
