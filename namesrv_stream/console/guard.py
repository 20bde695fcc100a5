"""Guard of the console: it trusts only the headers of known proxies, and refuses requests of foreign web pages.

A browser sends requests for any page that its user visits, also to this machine. A page under a foreign name that
resolves to this machine (DNS rebinding) is refused because of the name. A page that posts across origins is refused
because of its origin.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from namesrv_stream.access.addresses import TrustedProxies
from namesrv_stream.console.problems import problem_response

_FORWARDED = ("host", "proto", "prefix", "for")
_PREFIX = re.compile(r"(/[\w.~-]+)*")


class Forwarded:
    """ASGI middleware that applies the headers X-Forwarded-Host, -Proto, -Prefix and -For of a trusted proxy.

    The same headers of all other senders are ignored. `base` is the path that a proxy leaves in front of the console's
    paths, or empty.
    """

    def __init__(self, app: ASGIApp, proxies: str, base: str) -> None:
        self._app = app
        self._proxies = TrustedProxies(proxies)
        self._base = base

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on as the browser has sent it. A request for the base itself is redirected to the page."""
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


class Head:
    """ASGI middleware that answers HEAD as GET, without the body. Only a watch, which never ends, has no HEAD."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http" or scope["method"] != "HEAD" or scope["path"].endswith("/v1/watch"):
            await self._app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        await self._app({**scope, "method": "GET"}, receive, send_without_body)


_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SECURITY_HEADERS = {
    "content-security-policy": _PAGE_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
_HARMLESS = frozenset({"GET", "HEAD", "OPTIONS"})


class Guard:
    """ASGI middleware that refuses foreign pages' requests, and adds the headers that limit what the page may load."""

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        """Accept requests under the host names `names`, besides IP addresses and localhost."""
        self._app = app
        self._names = frozenset(names) | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope["method"], Headers(scope=scope))
        app = self._app if refusal is None else problem_response(*refusal)
        await app(scope, receive, _with_security_headers(send))

    def _refusal(self, method: str, headers: Headers) -> tuple[HTTPStatus, str] | None:
        """Return why a request is refused, None if it is not."""
        host = headers.get("host", "")
        if not self._is_known(host):
            return HTTPStatus.MISDIRECTED_REQUEST, (
                f"this console is not asked under the name {host[:200]!r}: use its IP address, or put the name into "
                "console.hosts"
            )
        if method in _HARMLESS:
            return None
        if not _is_same_origin(headers, host):
            return HTTPStatus.FORBIDDEN, "a page of another origin may not send commands: use the console's own page"
        return None

    def _is_known(self, host: str) -> bool:
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name.lower().rstrip(".") in self._names
        return True  # an address cannot be made to resolve to another machine


def _is_same_origin(headers: Headers, host: str) -> bool:
    """Return whether a browser sent the request for this console's page, or no browser sent it."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == host


def _with_security_headers(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(_SECURITY_HEADERS)
            headers.setdefault("cache-control", "no-cache")  # an update is seen at once
        await send(message)

    return with_headers
