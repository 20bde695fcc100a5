"""The certificate of tls.server.*, which is read again when its files change."""

from __future__ import annotations

import ssl
import time
from pathlib import Path

from namesrv_stream.access.reloaded_files import ReloadedFiles
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError

_PARTIAL_CHAIN = ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
_FLIGHTS = 4
"""Messages that each side sends in a handshake, at most."""


class Certificates:
    """The server's TLS settings, read again when their files change."""

    def __init__(self, settings: NamesrvSettings) -> None:
        self._settings = settings
        paths = (settings.tls_cert_path, settings.tls_key_path, settings.tls_trust_cert_path)
        self._files = [Path(path) for path in paths if path]
        self._loaded = ReloadedFiles("certificate", self._files, self._load)

    @property
    def is_set(self) -> bool:
        """True if any file of tls.server.* is set."""
        return bool(self._files)

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS settings for a new connection; None if no certificate is set."""
        self._loaded.reload()
        return self._loaded.value[0]

    @property
    def ends_s(self) -> float:
        """The time at which the certificate ends, in epoch seconds; 0 without one."""
        return self._loaded.value[1]

    def end_of_validity_s(self) -> float:
        """Return the time at which the certificate ends. Raises ssl.SSLError if a client would not accept it now.

        A client in memory does a handshake and trusts this very certificate, so its issuer is not checked.
        """
        server, client = self._read(), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        server.verify_mode = ssl.CERT_NONE
        client.check_hostname = False
        client.verify_flags |= _PARTIAL_CHAIN
        client.load_verify_locations(self._settings.tls_cert_path)
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        served = server.wrap_bio(to_server, to_client, server_side=True)
        asked = client.wrap_bio(to_client, to_server)
        for _ in range(_FLIGHTS):
            for side in (asked, served):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue
        return ssl.cert_time_to_seconds(str((asked.getpeercert() or {})["notAfter"]))

    def _load(self) -> tuple[ssl.SSLContext | None, float]:
        return (self._read(), self._end_s()) if self._files else (None, 0.0)

    def _end_s(self) -> float:
        try:
            return self.end_of_validity_s()
        except OSError:  # ssl.SSLError is one
            return time.time()  # it is not valid now, or is being replaced

    def _read(self) -> ssl.SSLContext:
        settings = self._settings
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(settings.tls_cert_path, settings.tls_key_path, settings.tls_key_password)
            if settings.tls_auth_client:
                if not settings.tls_trust_cert_path:
                    raise ValueError("tls.server.authClient needs tls.server.trustCertPath")
                context.verify_mode = ssl.CERT_REQUIRED
            elif settings.auth_mode != "off" and settings.tls_trust_cert_path:
                context.verify_mode = ssl.CERT_OPTIONAL  # identifies the user, if the client shows one
            if settings.tls_trust_cert_path:
                context.load_verify_locations(settings.tls_trust_cert_path)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            files = ", ".join(map(str, self._files))
            problem = f"cannot use the TLS certificate: {error}. Check {files} and tls.server.keyPassword."
            raise NamesrvError(problem) from error
        return context
