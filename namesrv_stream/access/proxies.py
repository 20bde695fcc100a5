"""Proxies whose word about a peer's address counts."""

from __future__ import annotations

import ipaddress


class TrustedProxies:
    """The proxies and load balancers whose headers are trusted. `networks`: address ranges, separated by commas."""

    def __init__(self, networks: str) -> None:
        self._networks = [ipaddress.ip_network(each, strict=False) for each in networks.split(",") if each]

    def __contains__(self, host: str) -> bool:
        if not self._networks:
            return False  # without reading the address, which would be half of what a new connection takes
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self._networks)
