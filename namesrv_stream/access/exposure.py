"""Refuses to open a port to other machines unless the settings say who may write."""

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
