"""Guard of the console: it trusts only the headers of known proxies, and refuses requests of foreign web pages.

A browser sends requests for any page that its user visits, also to this machine. A page under a foreign name that
resolves to this machine (DNS rebinding) is refused because of the name. A page that posts across origins is refused
because of its origin. An operator's command over HTTP needs a right besides.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import logging
import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from namesrv_stream.access.rights import NotAllowedError, Rights, TrustedProxies
from namesrv_stream.access.users import USER_NAME, Sender, Users
from namesrv_stream.answers.command_sending import OperatorCommand
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.console.problems import RefusedError, problem_response
from namesrv_stream.errors import SettingError
from namesrv_stream.rules.record_types import LiftExpiryGuard, UpdateNamesrvConfig
from namesrv_stream.wire.bodies import encode_properties
from namesrv_stream.wire.codes import RequestCode
from namesrv_stream.wire.remoting_command import RemotingCommand

log = logging.getLogger(__name__)


class Admission:
    """Decides who may send a command."""

    def __init__(self, settings: NamesrvSettings) -> None:
        """Read the users file.

        Raises SettingError if other machines can connect and auth.mode is not set, if the file cannot be used, or if
        no proxy is trusted to name users.
        """
        if settings.console_user_header and not settings.console_trusted_proxies:
            problem = "has no effect without console.trustedProxies"
            raise SettingError(
                "console.userHeader", problem, "Set it to the addresses of the proxies that set the header."
            )
        self._rights = Rights(settings, "console.bindAddress", settings.console_bind_address)

    def admitted(
        self, command: OperatorCommand, authorization: str | None, peer: str, proxy_user: str | None
    ) -> OperatorCommand:
        """Return the command with the name of its sender.

        `authorization`: the header Authorization, HTTP Basic with an accessKey and its secretKey. It is meant for the
        proxy if a trusted one names the user, in `proxy_user`. Raises NotAllowedError, or RefusedError for such a user,
        whom keys would not help.
        """
        sender = self._sender(authorization, proxy_user)
        try:
            observed = self._rights.check(_as_request(command), sender, {})
        except NotAllowedError as error:
            log.warning("console: %s is refused: %s", peer, error)
            if proxy_user is not None:
                raise RefusedError(HTTPStatus.FORBIDDEN, str(error)) from error
            raise
        if observed is not None:
            log.warning("console: %s would be refused: %s", peer, observed)
        name = proxy_user or (sender.user.name if sender.user else None)
        return msgspec.structs.replace(command, requested_by=f"{name}@{peer}" if name else peer)

    def _sender(self, authorization: str | None, proxy_user: str | None) -> Sender:
        self._rights.reload()
        if self._rights.users is None:
            return Sender(None, "this console has no users file")
        if proxy_user == "":
            return Sender(None, "its proxy names the user by no name, or by several")
        if proxy_user is not None:
            return self._rights.users.named(proxy_user)
        if authorization is None:
            return Sender(None, "it has no name and password")
        return _holder(self._rights.users, authorization)


def _as_request(command: OperatorCommand) -> RemotingCommand:
    """Return the command as RocketMQ's request, for which the rights are defined.

    RocketMQ has no request that lifts the guard. That needs the right to change the guard's settings.
    """
    properties: Mapping[str, str] = getattr(command, "properties", {})
    kind = UpdateNamesrvConfig if isinstance(command, LiftExpiryGuard) else type(command)
    code = RequestCode[str(kind.__struct_config__.tag)]
    return RemotingCommand(code=code, body=encode_properties(properties))


def _holder(users: Users, authorization: str) -> Sender:
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return Sender(None, "it has no HTTP Basic name and password")
    try:
        name, _, password = base64.b64decode(encoded, validate=True).partition(b":")
        return users.holder_of(name.decode(), password)
    except (binascii.Error, UnicodeDecodeError):
        return Sender(None, "its HTTP Basic header cannot be read")


_FORWARDED = ("host", "proto", "prefix", "for")
_PREFIX = re.compile(r"(/[\w.~-]+)*")


PROXY_USER = "namesrv_stream.proxy_user"
"""Key of a request's scope: the user whom a trusted proxy names, None if none does."""


class Forwarded:
    """ASGI middleware that applies the headers X-Forwarded-Host, -Proto, -Prefix and -For of a trusted proxy.

    The same headers of all other senders are ignored, and the header `user`, in which such a proxy names the user.
    `base` is the path that a proxy leaves in front of the console's paths, or empty.
    """

    def __init__(self, app: ASGIApp, proxies: str, base: str, user: str) -> None:
        self._app = app
        self._proxies = TrustedProxies(proxies)
        self._base = base
        self._user = user

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on as the browser has sent it. A request for the base itself is redirected to the page."""
        app = self._app
        if scope["type"] == "http":
            scope = self._as_asked(scope)
            if self._base and scope["path"] == self._base:
                app = RedirectResponse(f"{self._base}/")
        await app(scope, receive, send)

    def _as_asked(self, scope: Scope) -> Scope:
        asked = {**scope, "root_path": self._base, PROXY_USER: None}
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
        asked["client"] = _forwarded_address(last["for"]) or peer
        asked[PROXY_USER] = _user_in(headers.getlist(self._user)) if self._user else None
        return asked


def _user_in(values: list[str]) -> str | None:
    """Return the user in the values of a header; None if it is missing, empty if it is no name or several."""
    if not any(values):
        return None
    name = values[0].encode("latin-1").decode(errors="replace")
    return name if len(values) == 1 and re.fullmatch(USER_NAME, name) else ""


def _forwarded_address(text: str) -> tuple[str, int | None] | None:
    """Return the address that a proxy names, and its port, None if there is none; None for `unknown` and other texts.

    Accepted are 10.0.0.5, 10.0.0.5:443, 2001:db8::5 and [2001:db8::5]:443.
    """
    has_port = text.count(":") == 1 or "]:" in text
    host, _, port = text.rpartition(":") if has_port else (text, "", "0")
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
    if not re.fullmatch(r"[0-9]{1,5}", port):
        return None
    return str(getattr(address, "ipv4_mapped", None) or address), int(port) or None


def peer_text(client: tuple[str, int | None] | None) -> str:
    """Return the sender of a request, as the history names it."""
    if client is None:
        return "unknown"
    host, port = client
    return host if port is None else f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


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
        """Accept requests under the host names `names`, besides IP addresses and localhost.

        A name that begins with a dot is a domain and all below it.
        """
        self._app = app
        self._names = {"localhost", *filter(None, names)}
        self._domains = tuple(name for name in self._names if name.startswith("."))

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
                f"this console is not asked under the name {_name_in(host)[:200]!r}: use its IP address, or put the "
                "name into console.hosts"
            )
        if method in _HARMLESS:
            return None
        if not _is_same_origin(headers, host):
            return HTTPStatus.FORBIDDEN, "a page of another origin may not send commands: use the console's own page"
        return None

    def _is_known(self, host: str) -> bool:
        name = _name_in(host)
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._names or f".{name}".endswith(self._domains)
        return True  # an address cannot be made to resolve to another machine


def _name_in(host: str) -> str:
    """Return the name or address in a header Host, without its port."""
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name.lower().rstrip(".")


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
