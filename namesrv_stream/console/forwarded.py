"""Lets the console answer below a path and behind a proxy: at the address that the browser has asked for."""

from __future__ import annotations

import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from namesrv_stream.access.proxies import TrustedProxies

_PREFIX = re.compile(r"(/[\w.~-]+)*")


class Forwarded:
    """ASGI middleware that takes over what a trusted proxy forwards, X-Forwarded-Host, -Proto, -Prefix and -For.

    The headers of everybody else do not count. `base` is the path below which the console is asked if a proxy leaves
    it in the URL, or empty.
    """

    def __init__(self, app: ASGIApp, proxies: str, base: str) -> None:
        self._app = app
        self._proxies = TrustedProxies(proxies)
        self._base = base

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on as the browser has sent it. One for the base itself is redirected to its page."""
        app = self._app
        if scope["type"] == "http":
            scope = self._as_asked(scope)
            if self._base and scope["path"] == self._base:
                app = RedirectResponse(f"{self._base}/")
        await app(scope, receive, send)

    def _as_asked(self, scope: Scope) -> Scope:
        asked = {**scope, "root_path": self._base}
        peer = scope["client"]
        if peer is None or peer[0] not in self._proxies:
            return asked
        headers = Headers(scope=scope)
        last = {name: headers.get(f"x-forwarded-{name}", "").rpartition(",")[2].strip() for name in _FORWARDED}
        if _PREFIX.fullmatch(last["prefix"].rstrip("/")):
            asked["root_path"] = last["prefix"].rstrip("/") or self._base
        if last["host"]:
            asked["headers"] = list(scope["headers"])
            MutableHeaders(scope=asked)["host"] = last["host"]
        asked["scheme"] = last["proto"] if last["proto"] in ("http", "https") else scope["scheme"]
        asked["client"] = (last["for"] or peer[0], 0 if last["for"] else peer[1])
        return asked


_FORWARDED = ("host", "proto", "prefix", "for")
