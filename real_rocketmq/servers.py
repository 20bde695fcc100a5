"""Run a real RocketMQ on this machine, from its jars: NameServer, brokers and mqadmin.

For tests, measurements and demonstrations. All servers listen at 127.0.0.1 and keep their files in a given folder.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Self

from namesrv_stream.tools.local.jars import find_java, retrieved_jars
from namesrv_stream.tools.local.process import HOST, OwnedServer, free_ports, listens

START_LIMIT_S = 120
_MQADMIN_LIMIT_S = 60
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
        write_log_settings(home)
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


def mqadmin(
    home: Path, namesrv_addr: str, *arguments: str, release: Release = Release.V5, keys: tuple[str, str] | None = None
) -> str:
    """Run `mqadmin COMMAND ...` and return its output, errors included. `keys`: access key and secret key."""
    (home / "conf").mkdir(parents=True, exist_ok=True)
    (home / "conf/tools.yml").unlink(missing_ok=True)
    if keys is not None:
        (home / "conf/tools.yml").write_text(f"accessKey: {keys[0]}\nsecretKey: {keys[1]}\n")
    command = release.java(home.resolve(), _MQADMIN_MAIN, *arguments, "-n", namesrv_addr)
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=_MQADMIN_LIMIT_S
    )
    return done.stdout


_QUIET_5 = "org.apache.rocketmq.logging.ch.qos"
_LOG_SETTINGS = """<configuration>
  <appender name="F" class="{package}.logback.core.FileAppender">
    <file>{home}/{name}.log</file>
    <encoder><pattern>%d{{HH:mm:ss.SSS}} %p %c{{0}} - %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="F"/></root>
</configuration>
"""


def write_log_settings(home: Path) -> None:
    """Write the settings of logs: 5.x reads rmq.logback.xml from its class path, 4.x a file for each program."""
    folder = home / "conf"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("broker", "namesrv", "tools"):
        text = _LOG_SETTINGS.format(package="ch.qos", home=home, name=name)
        (folder / f"logback_{name}.xml").write_text(text)
    (folder / "rmq.logback.xml").write_text(_LOG_SETTINGS.format(package=_QUIET_5, home=home, name="rocketmq"))
