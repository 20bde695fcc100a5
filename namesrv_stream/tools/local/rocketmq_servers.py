"""A real RocketMQ on this machine, from its jars: NameServer, brokers, mqadmin and the Java client.

For tests, measurements and demonstrations. All servers listen at 127.0.0.1 and keep their files in a given folder.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, Self

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from namesrv_stream.errors import NamesrvError
from namesrv_stream.tools.local.jars import find_java, pyspark_jar, retrieved_jars
from namesrv_stream.tools.local.ports import HOST, free_ports, listens
from namesrv_stream.tools.local.process import OwnedServer

START_LIMIT_S = 120
_MQADMIN_LIMIT_S = 60
_CALL_LIMIT_S = 90
"""Limit for one call of the Java client, whose own timeouts are shorter."""
_NAMESRV_MAIN = "org.apache.rocketmq.namesrv.NamesrvStartup"
_BROKER_MAIN = "org.apache.rocketmq.broker.BrokerStartup"
_MQADMIN_MAIN = "org.apache.rocketmq.tools.command.MQAdminStartup"
_BROKER_OPENS = [
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
]
_SMALL_BROKER = {
    "autoCreateTopicEnable": "true",
    "brokerIP1": HOST,
    "brokerIP2": HOST,
    "defaultTopicQueueNums": "4",
    "diskMaxUsedSpaceRatio": "99",
    "flushDiskType": "ASYNC_FLUSH",
    "haSendHeartbeatInterval": "2000",
    "mappedFileSizeCommitLog": str(8 * 1024 * 1024),
    "mappedFileSizeConsumeQueue": "60000",
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
    "pullMessageThreadPoolNums": "2",
    "registerNameServerPeriod": "10000",
    "sendMessageThreadPoolNums": "2",
    "transientStorePoolEnable": "false",
    "warmMapedFileEnable": "false",
}
"""Settings of a broker that needs some hundred megabytes and registers as often as RocketMQ allows."""


class Release(Enum):
    """A release line, or a program of one; the value is its configuration in conf/ivy.xml."""

    V5 = "rocketmq"
    V4 = "rocketmq4"
    CLIENT_V4 = "rocketmq-client4"
    PROXY_V5 = "rocketmq-proxy"

    def java(self, home: Path, main: str, *arguments: str, heap: str = "-Xmx256m") -> list[str | Path]:
        """Return the command that runs one of its programs; its logs go to `home`, none to the terminal."""
        _write_log_settings(home)
        options = [heap, f"-Duser.home={home}", f"-Drocketmq.home.dir={home}", f"-Djava.io.tmpdir={home}"]
        jars = f"{home / 'conf'}:{retrieved_jars(self.value)}/*"
        opens = _BROKER_OPENS if main == _BROKER_MAIN else []
        return [find_java(), *options, *opens, "-cp", jars, main, *arguments]


class LocalServer(OwnedServer):
    """One server of RocketMQ in a JVM of its own. A broker unregisters when it is stopped."""

    def __init__(self, release: Release, main: str, data: Path, port: int, settings: Mapping[str, str]) -> None:
        self._release = release
        self._main = main
        self._data = data.resolve()
        super().__init__(self._data / "console.log")
        self._settings = {"listenPort": str(port), "bindAddress": HOST, **settings}
        self.port = port
        self.name = f"{main.rpartition('.')[2]} at port {port}"

    @property
    def address(self) -> str:
        """The server's host:port."""
        return f"{HOST}:{self.port}"

    def start(self, heap: str = "-Xmx512m") -> Self:
        """Start the server and return when it listens."""
        self._data.mkdir(parents=True, exist_ok=True)
        file = self._data / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self._settings.items()))
        command = self._release.java(self._data, self._main, "-c", str(file), heap=heap)
        self._run(command, lambda: listens(self.port), START_LIMIT_S)
        return self


def name_server(data: Path, release: Release = Release.V5, **settings: str) -> LocalServer:
    """Return RocketMQ's own NameServer, not yet started, on a free port."""
    kv = {"kvConfigPath": str(data.resolve() / "kvConfig.json")}
    return LocalServer(release, _NAMESRV_MAIN, data, free_ports(1), kv | settings)


def broker(
    data: Path, namesrv_addr: str, name: str, broker_id: int = 0, release: Release = Release.V5, **settings: str
) -> LocalServer:
    """Return a broker of the cluster RealCluster, not yet started, on free ports; id 0 is a master."""
    port = free_ports(4) + 2  # a broker also listens at PORT - 2, and at PORT + 1 for its slaves
    store = data.resolve() / "store"
    own = {
        "brokerClusterName": "RealCluster",
        "brokerId": str(broker_id),
        "brokerName": name,
        "brokerRole": "SLAVE" if broker_id else "ASYNC_MASTER",
        "haListenPort": str(port + 1),
        "namesrvAddr": namesrv_addr,
        "storePathCommitLog": str(store / "commitlog"),
        "storePathRootDir": str(store),
    }
    return LocalServer(release, _BROKER_MAIN, data, port, _SMALL_BROKER | own | settings)


class Keys(NamedTuple):
    """The access key and secret key with which a client or mqadmin signs its requests."""

    access_key: str
    secret_key: str


def mqadmin(
    home: Path, namesrv_addr: str, *arguments: str, release: Release = Release.V5, keys: Keys | None = None
) -> str:
    """Run `mqadmin COMMAND ...` and return its output, errors included."""
    (home / "conf").mkdir(parents=True, exist_ok=True)
    (home / "conf/tools.yml").unlink(missing_ok=True)
    if keys is not None:
        (home / "conf/tools.yml").write_text(f"accessKey: {keys.access_key}\nsecretKey: {keys.secret_key}\n")
    command = release.java(home.resolve(), _MQADMIN_MAIN, *arguments, "-n", namesrv_addr)
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=_MQADMIN_LIMIT_S
    )
    return done.stdout


class JavaClient:
    """RocketMQ's Java client in a JVM that Python drives: one producer and any number of consumers."""

    def __init__(self, java: JavaGateway, namesrv_addr: str, keys: Keys | None = None) -> None:
        self._client = java.jvm.org.apache.rocketmq.client
        self._signs: tuple[Any, ...] = ()
        if keys is not None:
            acl = java.jvm.org.apache.rocketmq.acl.common
            self._signs = (acl.AclClientRPCHook(acl.SessionCredentials(*keys)),)
        self._message = java.jvm.org.apache.rocketmq.common.message.Message
        self._consume_from = java.jvm.org.apache.rocketmq.common.consumer.ConsumeFromWhere
        self._namesrv_addr = namesrv_addr
        self._producer = self._client.producer.DefaultMQProducer("namesrv-stream-producer", *self._signs)
        self._producer.setNamesrvAddr(namesrv_addr)
        self._producer.setSendMsgTimeout(10_000)
        self._producer.start()

    def create_topic(self, topic: str, cluster: str) -> None:
        """Create a topic on all masters of a cluster, with a client of 4.x."""
        self._producer.createTopic(cluster, topic, 4)

    def send(self, topic: str, bodies: list[str]) -> None:
        """Send messages one by one, each acknowledged by a broker. Raises NamesrvError."""
        for body in bodies:
            result = self._producer.send(self._message(topic, body.encode()))
            status = result.getSendStatus().name()
            if status not in ("SEND_OK", "SLAVE_NOT_AVAILABLE"):
                raise NamesrvError(f"a message to {topic} was not sent: {status}. The broker's log shows why.")

    def receive(self, topic: str, count: int, limit_s: float = 60.0) -> list[str]:
        """Return messages of the topic from its start, in any order: `count`, or fewer if the limit has passed."""
        consumer = self._client.consumer.DefaultLitePullConsumer(f"group-{topic}", *self._signs)
        consumer.setNamesrvAddr(self._namesrv_addr)
        consumer.setConsumeFromWhere(self._consume_from.CONSUME_FROM_FIRST_OFFSET)
        consumer.subscribe(topic, "*")
        consumer.start()
        ends_s, found = time.monotonic() + limit_s, list[str]()
        try:
            while len(found) < count and time.monotonic() < ends_s:
                found.extend(bytes(message.getBody()).decode() for message in consumer.poll(500))
        finally:
            consumer.shutdown()
        return found

    def close(self) -> None:
        """Stop the producer."""
        self._producer.shutdown()


@contextmanager
def client_jvm(home: Path, release: Release = Release.V5) -> Iterator[JavaGateway]:
    """Run a JVM with RocketMQ's client in it within the `with`, and yield py4j's way to its classes.

    A call that does not return within _CALL_LIMIT_S raises an error. Only this process knows the JVM's token, so no
    other user of the machine can drive it. It ends with this process.
    """
    home = home.resolve()
    _write_log_settings(home)
    with (home / "client-console.log").open("w") as log:
        port, token, jvm = launch_gateway(
            jarpath=str(pyspark_jar("py4j")),
            classpath=f"{home / 'conf'}:{retrieved_jars(release.value)}/*",
            javaopts=["-Xmx256m", f"-Duser.home={home}", f"-Drocketmq.client.logRoot={home}"],
            java_path=str(find_java()),
            redirect_stdout=log,
            redirect_stderr=log,
            die_on_exit=True,
            create_new_process_group=True,
            enable_auth=True,
            return_proc=True,
        )
        parameters = GatewayParameters(port=port, auto_convert=True, read_timeout=_CALL_LIMIT_S, auth_token=token)
        java = JavaGateway(gateway_parameters=parameters)
        try:
            yield java
        finally:
            java.shutdown()  # before the JVM ends: py4j would connect to it whenever one of its objects is collected
            jvm.stdin.close()
            jvm.wait()


@contextmanager
def java_client(
    home: Path, namesrv_addr: str, release: Release = Release.V5, keys: Keys | None = None
) -> Iterator[JavaClient]:
    """Run a Java client of this release, in a JVM of its own, within the `with`."""
    with client_jvm(home, release) as java:
        client = JavaClient(java, namesrv_addr, keys)
        try:
            yield client
        finally:
            client.close()


_QUIET_5 = "org.apache.rocketmq.logging.ch.qos"
_LOG_SETTINGS = """<configuration>
  <appender name="F" class="{package}.logback.core.FileAppender">
    <file>{home}/{name}.log</file>
    <encoder><pattern>%d{{HH:mm:ss.SSS}} %p %c{{0}} - %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="F"/></root>
</configuration>
"""


def _write_log_settings(home: Path) -> None:
    """Write the settings of logs: 5.x reads rmq.logback.xml from its class path, 4.x a file for each program."""
    folder = home / "conf"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("broker", "namesrv", "tools"):
        text = _LOG_SETTINGS.format(package="ch.qos", home=home, name=name)
        (folder / f"logback_{name}.xml").write_text(text)
    (folder / "rmq.logback.xml").write_text(_LOG_SETTINGS.format(package=_QUIET_5, home=home, name="rocketmq"))
