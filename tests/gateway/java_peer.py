"""A peer that is RocketMQ's own Java client: its classes make, encode, sign and send each request."""

from __future__ import annotations

from typing import Any, NamedTuple

LIMIT_MS = 30_000


class JavaAnswer(NamedTuple):
    """The parts of an answer that tests compare."""

    code: int
    remark: str


class JavaPeer:
    """RocketMQ's remoting client in the JVM of `tests.java_client.client_jvm`.

    `keys`: the access key and secret key with which AclClientRPCHook signs; None signs nothing.
    """

    def __init__(self, java: Any, keys: tuple[str, str] | None = None) -> None:
        rocketmq = java.jvm.org.apache.rocketmq
        self._class_named = java.jvm.java.lang.Class.forName
        self._common = rocketmq.common
        self._remoting = rocketmq.remoting
        self._headers = self._remoting.protocol.RequestHeaderRegistry.getInstance()
        self._headers.initialize()
        self._client = self._remoting.netty.NettyRemotingClient(self._remoting.netty.NettyClientConfig())
        if keys is not None:
            acl = rocketmq.acl.common
            self._client.registerRPCHook(acl.AclClientRPCHook(acl.SessionCredentials(*keys)))
        self._client.start()

    def close(self) -> None:
        """Close all its connections."""
        self._client.shutdown()

    def ask(self, port: int, code: int, body: bytes = b"", **fields: str) -> JavaAnswer:
        """Send a request to a server on this machine, and return its answer.

        Of the fields it sends those that RocketMQ's header class of this request has; none if there is no such class.
        """
        command = self._remoting.protocol.RemotingCommand.createRequestCommand(code, self._header(code, fields))
        command.setBody(self._encoded(code, body))
        answer = self._client.invokeSync(f"127.0.0.1:{port}", command, LIMIT_MS)
        return JavaAnswer(answer.getCode(), answer.getRemark() or "")

    def _header(self, code: int, fields: dict[str, str]) -> Any:
        header_class = self._headers.getRequestHeader(code)
        if header_class is None:
            return None
        read = self._remoting.protocol.RemotingCommand.createRequestCommand(code, None)
        read.setExtFields(fields)
        return read.decodeCommandCustomHeader(header_class)  # which checks that no field is missing

    def _encoded(self, code: int, body: bytes) -> bytes | None:
        """Return the body as RocketMQ's class of it encodes it; None where a request has none."""
        protocol = self._remoting.protocol
        match code:
            case 103:
                return protocol.body.RegisterBrokerBody().encode(False)
            case 217:
                route_class = self._class_named("org.apache.rocketmq.remoting.protocol.route.TopicRouteData")
                return protocol.RemotingSerializable.decode(body, route_class).encode()
            case 318:
                settings = self._common.MixAll.string2Properties(body.decode())
                return self._common.MixAll.properties2String(settings).encode()
            case 322:
                return protocol.DataVersion().encode()
        return None
