"""Run a real Apache Kafka node on this machine: broker and KRaft controller in one JVM, started from its jars.

The first node that ends in order leaves an archive of its classes (Java's class data sharing) beside the jars. With it
a start takes 2.6 s of CPU instead of 4.6 s.
"""

import base64
import os
import signal
import subprocess
import uuid
from pathlib import Path
from typing import Self

import javaproperties

from namesrv_stream.kafka.topic import answers
from namesrv_stream.tools.local.jars import CONF, JARS, find_java, retrieved_jars
from namesrv_stream.tools.local.process import HOST, OwnedServer, ServerEndedError, check_free, free_ports, listens

START_LIMIT_S = 60
HEAP = "-Xmx512m"
ARCHIVE = JARS / "kafka" / "classes.jsa"
"""The archive of classes. Ivy deletes it when it fetches the jars anew. After an update of Java it has no effect."""

_ENDED_IN_ORDER = 128 + signal.SIGTERM
"""Java's exit code after SIGTERM. With another one the archive may be incomplete."""

_SILENT = "-Xlog:cds*=off"
"""Keeps Java from logging hundreds of classes that an archive leaves out, and an archive that does not fit."""


class LocalKafka(OwnedServer):
    """A Kafka node whose data stays in `data` when it ends; as a context manager it runs within the `with`.

    It takes free ports, unless `port` names the broker's. They stay the same over `kill` and `start`.
    """

    name = "Kafka"

    def __init__(self, data: Path, port: int | None = None) -> None:
        self._data = data.resolve()
        super().__init__(self._data / "kafka.log")
        self._properties = self._data / "server.properties"
        free = free_ports(2)
        self._port, self._controller_port = free if port is None else port, free + 1
        self._recorded = ARCHIVE.with_name(f".classes-{self._controller_port}.jsa")

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, known before the start."""
        return f"{HOST}:{self._port}"

    def start(self) -> Self:
        """Start the node and return when it answers; a first start formats its storage.

        Raises NamesrvError if another process has one of its ports, and ServerEndedError.
        """
        for port in (self._port, self._controller_port):
            check_free(port, "Kafka (setting kafka.bootstrap.servers)")
        self._data.mkdir(parents=True, exist_ok=True)
        self._properties.write_text(self._server_properties())
        if not (self._data / "log" / "meta.properties").exists():
            self._format()
        if ARCHIVE.exists() or not os.access(ARCHIVE.parent, os.W_OK):
            self._start_node(_with_archive())
            return self
        try:
            self._start_node([f"-XX:ArchiveClassesAtExit={self._recorded}"])
        except ServerEndedError:  # for example, a Java without the archive of its own classes can record none
            self._start_node([])
        return self

    def _start_node(self, options: list[str]) -> None:
        command = self._java(options, "kafka.Kafka", str(self._properties))
        self._run(command, self._answers, START_LIMIT_S)

    def stop(self) -> None:
        """End the node in order (SIGTERM), and keep its archive of classes if there is none. See OwnedServer."""
        process = self._process
        super().stop()
        if self._recorded.exists():
            if process is not None and process.exit_code == _ENDED_IN_ORDER:
                self._recorded.replace(ARCHIVE)  # a rename, because running nodes have the former file mapped in memory
            self._recorded.unlink(missing_ok=True)

    def _server_properties(self) -> str:
        broker, controller = f"{HOST}:{self._port}", f"{HOST}:{self._controller_port}"
        return (CONF / "kafka.properties").read_text() + (
            f"\nlisteners=PLAINTEXT://{broker},CONTROLLER://{controller}\n"
            f"advertised.listeners=PLAINTEXT://{broker}\n"
            f"controller.quorum.voters=1@{controller}\n"
            f"log.dirs={javaproperties.escape(str(self._data / 'log'))}\n"
        )

    def _format(self) -> None:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        arguments = ["format", "-c", str(self._properties), f"--cluster-id={cluster_id}"]
        tool = self._java(_with_archive(), "kafka.tools.StorageTool", *arguments)
        with self._log.open("ab") as log:
            done = subprocess.run(tool, stdout=log, stderr=log, check=False)
        if done.returncode != 0:
            raise ServerEndedError(self.name, "cannot format its storage", self._log)

    def _java(self, options: list[str], *arguments: str) -> list[str | Path]:
        logging = f"-Dlog4j2.configurationFile={CONF / 'log4j2.properties'}"
        return [find_java(), HEAP, _SILENT, *options, logging, "-cp", f"{retrieved_jars('kafka')}/*", *arguments]

    def _answers(self) -> bool:
        """Return whether the node accepts connections and describes its cluster."""
        return listens(self._port) and answers({"bootstrap.servers": self.bootstrap_servers})


def _with_archive() -> list[str]:
    return [f"-XX:SharedArchiveFile={ARCHIVE}"] if ARCHIVE.exists() else []
