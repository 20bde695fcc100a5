"""Decide which addresses are open to other machines and need an explicit auth.mode, and which proxies are trusted."""

from __future__ import annotations

import ipaddress

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import SettingError


def check_exposure(settings: NamesrvSettings, key: str, bind_address: str) -> None:
    """Raise SettingError if other machines can connect to the address and auth.mode is not set explicitly.

    `key` is the setting that has the address.
    """
    is_said = "auth_mode" in settings.model_fields_set or settings.auth_mode != "off"
    if not is_said and not is_loopback(bind_address):
        raise SettingError(
            "auth.mode",
            f"is not set, and {key} {bind_address} lets other machines connect",
            "Set observe, operators or writes with auth.usersPath, or auth.mode=off if everybody who reaches "
            "this address may change routes.",
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
