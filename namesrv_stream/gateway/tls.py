"""TLS without a socket: ciphertext in, ciphertext out, and the plain text between them."""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError

log = logging.getLogger(__name__)

_CHUNK_BYTES = 64 * 1024
_PARTIAL_CHAIN = ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
_FLIGHTS = 4
"""Messages that each side sends in a handshake, at most."""


class CertificateError(NamesrvError):
    """The files of tls.server.* cannot be used."""

    def __init__(self, problem: str, files: str) -> None:
        super().__init__(f"TLS certificate not usable: {problem}. Check {files} and tls.server.keyPassword.")
        self.problem = problem


class Certificates:
    """The server's TLS settings, read again when their files change.

    If changed files cannot be used, the certificate before stays in force.
    """

    def __init__(self, settings: NamesrvSettings) -> None:
        self._settings = settings
        paths = (settings.tls_cert_path, settings.tls_key_path, settings.tls_trust_cert_path)
        self._files = [Path(path) for path in paths if path]
        self._read_at: list[int] | None = None
        self._context: ssl.SSLContext | None = None
        self.ends_s = 0.0
        """The time at which the certificate ends, in epoch seconds; 0 without one."""
        if self._files:
            self._read_at = self._changed_at()
            self._context = self._read()
            self.ends_s = self._end_s()

    @property
    def is_set(self) -> bool:
        """True if any file of tls.server.* is set."""
        return bool(self._files)

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS settings for a new connection; None if no certificate is set."""
        if self._files and (changed_at := self._changed_at()) != self._read_at:
            self._read_at = changed_at
            try:
                self._context = self._read()
                self.ends_s = self._end_s()
                log.info("TLS certificate read again from %s", self._settings.tls_cert_path)
            except CertificateError as error:
                log.error("%s The certificate before stays in force.", error)
        return self._context

    def end_of_validity_s(self) -> float:
        """Return the time at which the certificate ends. Raises ssl.SSLError if a client would not accept it now.

        The client of a handshake in memory trusts this certificate itself, so who has issued it is not checked.
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

    def _end_s(self) -> float:
        try:
            return self.end_of_validity_s()
        except ssl.SSLError:
            return time.time()  # it is not valid now

    def _changed_at(self) -> list[int]:
        return [file.stat().st_mtime_ns if file.exists() else 0 for file in self._files]

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
            raise CertificateError(str(error), ", ".join(map(str, self._files))) from error
        return context


class TlsSession:
    """The server's side of one connection's TLS. Raises ssl.SSLError if the peer violates the protocol."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.is_shaken = False
        """True once the handshake is whole."""

    def received(self, data: bytes, send: Callable[[bytes], None]) -> bytes:
        """Return the plain text that these bytes complete. Send what TLS itself has to, such as in the handshake."""
        self._incoming.write(data)
        plain = []
        try:
            if not self.is_shaken:
                self._session.do_handshake()
                self.is_shaken = True
            while chunk := self._session.read(_CHUNK_BYTES):
                plain.append(chunk)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        finally:
            if ciphertext := self._outgoing.read():
                send(ciphertext)
        return b"".join(plain)

    @cached_property
    def certificate_names(self) -> frozenset[str]:
        """The subject alternative names of the client's verified certificate, each as `DNS:name`.

        Read it only after the handshake: the first result is kept.
        """
        certificate = self._session.getpeercert() or {}
        names: Iterable[tuple[str, str]] = certificate.get("subjectAltName", ())  # type: ignore[assignment]
        return frozenset(f"{kind}:{name}" for kind, name in names)

    def encrypted(self, data: bytes) -> bytes:
        """Return the bytes to send for this plain text."""
        self._session.write(data)
        return self._outgoing.read()
