"""One real Apache Kafka node on this machine: broker and KRaft controller in one JVM, started from its jars."""

import base64
import contextlib
import socket
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from kafka import KafkaAdminClient
from tenacity import RetryError, Retrying, retry_if_not_result, stop_after_delay, wait_fixed

from namesrv_stream.errors import NamesrvError
from namesrv_stream.local.jars import CHECKOUT, retrieved_jars
from namesrv_stream.local.java import find_java
from namesrv_stream.local.process import OwnedProcess

HOST = "127.0.0.1"
START_LIMIT_S = 60
HEAP = "-Xmx512m"


class PortInUseError(NamesrvError):
    """The port that a server was to have is another process's."""

    def __init__(self, port: int, server: str) -> None:
        super().__init__(
            f"port {port} of {HOST} is in use, so {server} cannot have it: "
            f"stop what listens there (`ss -ltnp 'sport = :{port}'` names it) or choose another port"
        )
        self.port = port


class KafkaNotStartedError(NamesrvError):
    """Kafka ended, or did not answer within the limit; `log` has all that it said."""

    def __init__(self, what: str, log: Path) -> None:
        said = log.read_text(errors="replace").strip().splitlines()[-5:] if log.exists() else []
        super().__init__("\n".join([f"Kafka {what}; the end of {log}:", *said]))
        self.log = log


class LocalKafka:
    """A Kafka node whose data outlives it in `data`; as a context manager it runs within the `with`.

    Ports are free ones unless `port` names the broker's, and stay the same over `kill` and `start`.
    """

    def __init__(self, data: Path, port: int | None = None) -> None:
        self._data = data.resolve()
        self._log = self._data / "kafka.log"
        self._properties = self._data / "server.properties"
        self._port, self._controller_port = _free_ports(2) if port is None else (port, *_free_ports(1))
        self._process: OwnedProcess | None = None

    @property
    def bootstrap_servers(self) -> str:
        """What a client connects to, known before the start already."""
        return f"{HOST}:{self._port}"

    @property
    def pid(self) -> int | None:
        """The JVM's process id, None when it is not running."""
        return self._process.pid if self._process else None

    def start(self) -> Self:
        """Starts the node and returns when it answers; a first start formats its storage."""
        for port in (self._port, self._controller_port):
            _check_free(port)
        self._data.mkdir(parents=True, exist_ok=True)
        self._properties.write_text(self._server_properties())
        if not (self._data / "log" / "meta.properties").exists():
            self._format()
        self._process = OwnedProcess(self._java("kafka.Kafka", str(self._properties)), self._log)
        try:
            self._wait_until_it_answers(self._process)
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """An orderly end: Kafka flushes its log. Nothing when it is not running."""
        if self._process:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        """An end as by a crash; `start` brings the node back on the same ports with the same data."""
        if self._process:
            self._process.kill()
            self._process = None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Within the `with`, Kafka keeps its connections and answers nothing."""
        if self._process is None:
            raise KafkaNotStartedError("is not running and cannot be paused", self._log)
        self._process.pause()
        try:
            yield
        finally:
            self._process.resume()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _server_properties(self) -> str:
        broker, controller = f"{HOST}:{self._port}", f"{HOST}:{self._controller_port}"
        return (CHECKOUT / "conf" / "kafka.properties").read_text() + (
            f"\nlisteners=PLAINTEXT://{broker},CONTROLLER://{controller}\n"
            f"advertised.listeners=PLAINTEXT://{broker}\n"
            f"controller.quorum.voters=1@{controller}\n"
            f"log.dirs={self._data / 'log'}\n"
        )

    def _format(self) -> None:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = self._java(
            "kafka.tools.StorageTool", "format", "-c", str(self._properties), f"--cluster-id={cluster_id}"
        )
        with self._log.open("ab") as log:
            done = subprocess.run(tool, stdout=log, stderr=log, check=False)
        if done.returncode != 0:
            raise KafkaNotStartedError("could not format its storage", self._log)

    def _java(self, main: str, *arguments: str) -> list[str | Path]:
        logging = f"-Dlog4j2.configurationFile={CHECKOUT / 'conf' / 'log4j2.properties'}"
        return [find_java(), HEAP, logging, "-cp", f"{retrieved_jars('kafka')}/*", main, *arguments]

    def _wait_until_it_answers(self, process: OwnedProcess) -> None:
        def is_up_or_ended() -> bool:
            return process.exit_code is not None or self._answers()

        until = Retrying(stop=stop_after_delay(START_LIMIT_S), wait=wait_fixed(0.1), retry=retry_if_not_result(bool))
        try:
            until(is_up_or_ended)
        except RetryError:
            raise KafkaNotStartedError(f"did not answer within {START_LIMIT_S} s", self._log) from None
        if process.exit_code is not None:
            raise KafkaNotStartedError(f"ended with exit code {process.exit_code}", self._log)

    def _answers(self) -> bool:
        """Whether it accepts connections and counts itself among the brokers."""
        try:
            socket.create_connection((HOST, self._port), timeout=1).close()
        except OSError:
            return False
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        try:
            return bool(admin.describe_cluster()["brokers"])
        finally:
            admin.close()


def _free_ports(count: int) -> list[int]:
    """Ports that nobody has now, different ones because they are held together before they are let go."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server((HOST, 0))) for _ in range(count)]
        return [bound.getsockname()[1] for bound in sockets]


def _check_free(port: int) -> None:
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        raise PortInUseError(port, "Kafka") from None
