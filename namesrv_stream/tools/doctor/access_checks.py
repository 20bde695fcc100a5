"""Checks of the gateway's certificate and users file."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from pathlib import Path

from namesrv_stream.access.users import read_users
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.gateway.tls import Certificates
from namesrv_stream.tools.doctor.finding import Finding

_SOON_DAYS = 30
_DAY_S = 86_400


def check_certificate(settings: NamesrvSettings) -> Iterator[Finding]:
    """Read the files of tls.server.*, and shake hands with the certificate in memory."""
    certificates = Certificates(settings)
    if not certificates.is_set:
        yield Finding("certificate", "not checked", "tls.server.certPath is not set: the gateway speaks plain text")
        return
    file = settings.tls_cert_path
    try:
        ends_s = certificates.end_of_validity_s()
    except ssl.SSLError as error:
        problem = getattr(error, "verify_message", "") or str(error)
        yield Finding("certificate", "failed", f"{file}: {problem}", "Put a certificate there that is valid now.")
        return
    days = int((ends_s - time.time()) // _DAY_S)
    if days < _SOON_DAYS:
        yield Finding("certificate", "warning", f"{file} is valid for {days} days", "Renew it; no restart is needed.")
    else:
        yield Finding("certificate", "ok", f"{file} is valid for {days} days")


def check_users(settings: NamesrvSettings) -> Iterator[Finding]:
    """Read the users file, as the gateway does at its start."""
    if not settings.auth_users_path:
        open_to_all = "auth.usersPath is not set: whoever reaches the gateway may write"
        yield Finding("users file", "not checked", open_to_all, "docs/security.md describes how to close a registry.")
        return
    read_users(Path(settings.auth_users_path))
    yield Finding("users file", "ok", f"{settings.auth_users_path} can be used; auth.mode is {settings.auth_mode}")
