"""The checkpoint of the streaming query, on whatever file system Hadoop reaches.

It saves work, never the outcome: without it the keyed state begins from the table `live` and the log is read from the
offset of the newest snapshot.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from namesrv_stream.errors import NamesrvError

log = logging.getLogger(__name__)

STATE_FORMAT = 4
"""Raised when the state of a former release cannot be read. Each format has a folder of its own, so a release that
changes it begins with a new checkpoint by itself, and one that is rolled back finds its own again."""

STATE_STORE = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.encodingFormat": "avro",
}
"""The form in which the state is kept, even if a conf file has another value. Avro lets the state's schema grow."""

_FILE_MANAGER = (
    "spark.sql.streaming.checkpointFileManagerClass",
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
)
"""For local disks. Spark's choice asks Hadoop's FileContext, which starts the program `stat` several times for each
file: 64 processes and 100 ms of a micro-batch. Both write a file under another name and rename it."""

_ANY_REMAINDER = ("spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart", "false")
"""A job that ended in its first micro-batch may leave a half-written file. Spark would refuse that folder for ever, and
fears only that two queries share it: this one has the topic's id in its name."""

_VERIFIED = (
    "spark.sql.streaming.stateStore.providerClass",
    "spark.sql.streaming.stateStore.encodingFormat",
)


def set_up_checkpoint(spark: SparkSession, location: str) -> None:
    """Set the session up to keep state as `STATE_STORE` says, take a half-written checkpoint, and write quickly."""
    for key, value in STATE_STORE.items():
        spark.conf.set(key, value)
    spark.conf.set(*_ANY_REMAINDER)
    if _is_on_local_disk(spark, location):
        spark.conf.set(*_FILE_MANAGER)


def remove_folder(spark: SparkSession, location: str) -> None:
    """Remove a folder and all in it, if it is there."""
    path, files = _path_and_files(spark, location)
    files.delete(path, True)


class StateStoreMismatchError(NamesrvError):
    """A checkpoint whose state was written in another way than this release reads it."""

    def __init__(self, location: str, key: str, found: str, wanted: str) -> None:
        super().__init__(
            f"the checkpoint {location} was written with {key}={found}, and this release reads {wanted}. Remove that "
            "folder and start again: the state is made anew from the tables, and nothing is lost."
        )
        self.location = location
        self.key = key


class Checkpoint:
    """The folder of this release's checkpoint of one log, below `checkpoint.location`.

    Its name has the id of the topic, and when the topic was accepted as a new log, if it was: offsets of another log
    mean nothing in this one.
    """

    def __init__(self, spark: SparkSession, base: str, topic_id: str | None, accepted_at_ms: int | None = None) -> None:
        self._base = base.rstrip("/")
        names = ["state", str(STATE_FORMAT), topic_id or "topic", *([str(accepted_at_ms)] if accepted_at_ms else [])]
        self.location = f"{self._base}/{'-'.join(names)}"
        jvm = spark.sparkContext._jvm  # pyspark has no other way to Hadoop's file systems
        assert jvm is not None
        self._jvm: Any = jvm
        _, self._files = _path_and_files(spark, self.location)

    def has_finished_a_batch(self) -> bool:
        """Return whether a query has finished a batch with this checkpoint.

        Spark takes initial state in its first batch only, so until that one is done it has to be given again.
        """
        return bool(self._numbers("commits"))

    def make_ready(self) -> None:
        """Make the folder of all checkpoints if it is missing, and log that a former release's is not used.

        Raises StateStoreMismatchError if the state was written in another way.
        """
        self._files.mkdirs(self._path(self._base))
        if self._files.exists(self._path(f"{self._base}/commits")) and not self.has_finished_a_batch():
            log.warning("the checkpoint in %s is of a former release and is not used: the state is made from the "
                        "tables, which have all that counts. The folder can be removed.", self._base)  # fmt: skip
        batches = self._numbers("offsets")
        if not batches:
            return
        written = self._settings_of(max(batches))
        for key in _VERIFIED:
            if written.get(key, STATE_STORE[key]) != STATE_STORE[key]:
                raise StateStoreMismatchError(self.location, key, written[key], STATE_STORE[key])

    def remove_if_unusable(self, topic: str, first_offset: int) -> None:
        """Remove the checkpoint if Spark cannot go on with it.

        It may go on before the oldest record of the topic, or be damaged: a disk that was full leaves a file empty.
        """
        done = self._numbers("commits")
        next_offset = self._next_offset(max(done), topic) if done else first_offset
        if next_offset is None:
            log.warning("the checkpoint %s is damaged: it is removed, and the state is made from the tables",
                        self.location)  # fmt: skip
            self.remove()
            return
        if next_offset >= first_offset:
            return
        log.warning("the checkpoint %s goes on before offset %d, the oldest that Kafka has: it is removed, and the "
                    "state is made from the tables", self.location, first_offset)  # fmt: skip
        self.remove()

    def remove(self) -> None:
        """Remove the checkpoint; the next query makes its state from the tables."""
        self._files.delete(self._path(self.location), True)

    def _next_offset(self, batch: int, topic: str) -> int | None:
        """Return the offset after a batch, from the last line of its offset log; None if that cannot be read."""
        lines = self._offset_log(batch)
        with suppress(ValueError, IndexError, AttributeError):
            return int(json.loads(lines[2]).get(topic, {}).get("0", 0))
        return None

    def _numbers(self, folder: str) -> list[int]:
        path = self._path(f"{self.location}/{folder}")
        if not self._files.exists(path):
            return []
        names = [status.getPath().getName() for status in self._files.listStatus(path)]
        return [int(name) for name in names if name.isdigit()]

    def _settings_of(self, batch: int) -> dict[str, str]:
        """The SQL settings that Spark wrote down with a planned batch, in the second line of its offset log."""
        lines = self._offset_log(batch)
        with suppress(ValueError, IndexError):
            settings: dict[str, str] = json.loads(lines[1]).get("conf", {})
            return settings
        return {}

    def _offset_log(self, batch: int) -> list[str]:
        """Return a batch's offset log: a version, settings, and a line for each source; no line if it is not there."""
        if batch not in self._numbers("offsets"):
            return []
        stream = self._files.open(self._path(f"{self.location}/offsets/{batch}"))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")).splitlines()
        finally:
            stream.close()

    def _path(self, location: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(location)


def _is_on_local_disk(spark: SparkSession, location: str) -> bool:
    """Return whether Hadoop sees a folder of this machine there. No other file system is asked."""
    default: str = spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS", "file:///")
    return urlsplit(location if "://" in location else default).scheme == "file"


def _path_and_files(spark: SparkSession, location: str) -> tuple[Any, Any]:
    """Return Hadoop's path of a location, and its file system."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    path = jvm.org.apache.hadoop.fs.Path(location)
    return path, path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
