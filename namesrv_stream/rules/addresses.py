"""Which addresses a broker can announce in vain: other machines cannot use them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address


def host_of(address: str) -> str:
    """Return the host of `host:port`, without the brackets of IPv6."""
    return address.rpartition(":")[0].strip("[]")


def _ip(host: str) -> IPv4Address | IPv6Address | None:
    """Return an IP address, one of IPv4 as such although it is written as one of IPv6; None for a name."""
    try:
        ip = ip_address(host)
    except ValueError:
        return None
    return getattr(ip, "ipv4_mapped", None) or ip


def is_of_some_machine(address: str) -> bool:
    """Return whether `host:port` names a machine and a port, be it only for that machine itself."""
    host, port = host_of(address), address.rpartition(":")[2]
    ip = _ip(host)
    return port.isdecimal() and int(port) > 0 and host.lower() not in ("", "null") and not (ip and ip.is_unspecified)


def is_of_one_machine(address: str) -> bool:
    """Return whether other machines cannot use `host:port`: loopback, unspecified or link-local, or port 0."""
    host = host_of(address)
    ip = _ip(host)
    return (
        not is_of_some_machine(address)
        or host.lower() == "localhost"
        or bool(ip and (ip.is_loopback or ip.is_link_local))
    )


def is_announced_in_vain(address: str, peer_host: str) -> bool:
    """Return whether a broker announces such an address, and connects from another machine than this one."""
    if not is_of_one_machine(address) or peer_host == host_of(address):
        return False
    ip = _ip(peer_host)
    return peer_host not in ("?", "localhost") if ip is None else not ip.is_loopback
