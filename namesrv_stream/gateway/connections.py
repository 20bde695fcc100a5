"""All open connections of one server, and the objects that they share."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from namesrv_stream.access.addresses import TrustedProxies
from namesrv_stream.gateway.fair_shares import FairShares, PeerLimits
from namesrv_stream.gateway.inbound import Terms
from namesrv_stream.gateway.tls import Certificates
from namesrv_stream.reporting.logs import PeerLog

if TYPE_CHECKING:
    from namesrv_stream.gateway.connection import Connection


class Connections:
    """All open connections of one server, and what they share."""

    def __init__(self, certificates: Certificates, tls_mode: str, limits: PeerLimits | None = None) -> None:
        limits = limits or PeerLimits()
        self.certificates = certificates
        self.shares = FairShares(limits)
        self.log = PeerLog(logging.getLogger(f"{__package__}.connection"))
        self._tls_mode = tls_mode
        self._trusted_proxies = TrustedProxies(limits.trusted_proxies)
        self._loop = asyncio.get_running_loop()
        self._number = 0

    @property
    def open(self) -> set[Connection]:
        """The connections that are counted: admitted, and not lost yet."""
        return self.shares.open

    def next_number(self) -> int:
        """Return the number of a new connection. No number is returned twice."""
        self._number += 1
        return self._number

    def terms(self, host: str) -> Terms:
        """Return the protocols with which a peer at this address may begin."""
        has_tls = self._tls_mode != "disabled" and self.certificates.is_set
        return Terms(has_tls, self._tls_mode != "enforcing", host in self._trusted_proxies)

    def look_around(self, idle_limit_s: float) -> None:
        """Close overdue connections, record what each connection holds now, and log how many lines were left out.

        Call it about once a second.
        """
        now_s = self._loop.time()
        for connection in list(self.open):
            connection.close_if_overdue(now_s, idle_limit_s)
            connection.count_held()
        self.log.sum_up(now_s)
