"""The checkpoint of the streaming query, on any file system that Hadoop reaches.

This module decides whether Spark can go on with a checkpoint or has to begin a new one. A checkpoint only saves work.
Without one the keyed state begins from the table `live`, and the log is read from the newest snapshot's offset.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.config.values import is_object_store
from namesrv_stream.errors import SettingError
from namesrv_stream.tables.object_store import give_spark_access
from namesrv_stream.tables.root import Root

log = logging.getLogger(__name__)

STATE_FORMAT = 5
"""Number of the state's format. It rises with each change by which the state of a former release becomes unreadable.
Each format has a folder of its own: a new format begins a new checkpoint, and a release that is rolled back finds its
own."""

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
"""For local disks. Spark's default uses Hadoop's FileContext, which runs the program `stat` several times for each
file: 64 processes and 100 ms a micro-batch. Both write a file under another name and rename it."""

_ANY_REMAINDER = ("spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart", "false")
"""A job that ended in its first micro-batch may leave a half-written file, and Spark would refuse its folder for ever.
Spark's check guards against two queries in one folder. The topic's id in the folder's name does that here."""


def set_up_checkpoint(spark: SparkSession, location: str) -> None:
    """Set the session up to keep state in the form STATE_STORE, accept a half-written checkpoint, and write quickly."""
    for key, value in STATE_STORE.items():
        spark.conf.set(key, value)
    spark.conf.set(*_ANY_REMAINDER)
    if _is_on_local_disk(spark, location):
        spark.conf.set(*_FILE_MANAGER)


def reach_checkpoint(spark: SparkSession, settings: NamesrvSettings) -> None:
    """Give Spark access to `checkpoint.location`. Raises SettingError if executors or this JVM cannot reach it."""
    require_shared_checkpoint(settings, str(spark.sparkContext.master))
    _require_name_in_java(spark, settings.checkpoint_location)
    give_spark_access(spark, Root(settings.checkpoint_location, settings.storage_options))


def require_shared_checkpoint(settings: NamesrvSettings, master: str) -> None:
    """Raise SettingError for a folder of this machine if Spark's executors run on others.

    If the tables are in a folder too, nothing is checked: all machines may share that folder.
    """
    location = settings.checkpoint_location
    if is_object_store(settings.delta_root) and "://" not in location and not master.startswith("local"):
        raise SettingError(
            "checkpoint.location",
            f"{location} is a folder of one machine, and Spark runs on several ({master})",
            "Set a URL that all of them reach: s3a://..., hdfs://... or file:///... on a shared disk.",
        )


def _require_name_in_java(spark: SparkSession, location: str) -> None:
    """Raise SettingError if Java encodes the folder's name otherwise than this Python, as in the locale C."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    encoding = str(jvm.java.lang.System.getProperty("sun.jnu.encoding"))
    try:
        location.replace("?", "\ufffd").encode(encoding)  # what Java has made of the letters of an argument
    except UnicodeEncodeError as error:
        problem = f"Java cannot encode {location} in this locale ({encoding})"
        raise SettingError("checkpoint.location", problem, "Set LC_ALL=C.UTF-8 for spark-submit.") from error


def remove_folder(spark: SparkSession, location: str) -> None:
    """Remove a folder and all in it, if it is there."""
    path, files = _path_and_files(spark, location)
    files.delete(path, True)


class Checkpoint:
    """The folder of this release's checkpoint of one log, below `checkpoint.location`.

    Its name has the topic's id and, for a topic that was accepted as a new log, the time of that. So offsets of one log
    are never used for another.
    """

    def __init__(self, spark: SparkSession, base: str, topic_id: str | None, accepted_at_ms: int | None = None) -> None:
        self._base = base.rstrip("/")
        self._of_log = "-".join([topic_id or "topic", *([str(accepted_at_ms)] if accepted_at_ms else [])])
        self.location = f"{self._base}/state-{STATE_FORMAT}-{self._of_log}"
        jvm = spark.sparkContext._jvm  # pyspark has no other way to Hadoop's file systems
        assert jvm is not None
        self._jvm: Any = jvm
        _, self._files = _path_and_files(spark, self.location)

    def has_finished_a_batch(self) -> bool:
        """Return whether a query has finished a batch with this checkpoint.

        Spark takes initial state only in its first batch, so a restart before the end of that batch has to give it
        again.
        """
        return bool(self._numbers("commits"))

    def make_base(self) -> None:
        """Make the folder of all checkpoints if it is missing."""
        self._files.mkdirs(self._path(self._base))

    def make_ready(self, topic: str, first_offset: int, *, are_tables_empty: bool = False) -> None:
        """Put the checkpoint aside if its files show that Spark cannot go on with it.

        `first_offset`: of the oldest record that Kafka has. `are_tables_empty`: the tables have read no record.
        """
        misfit = self._misfit(topic, first_offset, are_tables_empty=are_tables_empty)
        if misfit is not None:
            self.put_aside(misfit)
        elif not self._files.exists(self._path(self.location)):
            self._name_others()

    def _name_others(self) -> None:
        """Log which checkpoints of other releases exist and are not used."""
        names = [status.getPath().getName() for status in self._files.listStatus(self._path(self._base))]
        others = [
            name for name in names if name == "commits" or (name.startswith("state-") and name.endswith(self._of_log))
        ]
        if others:
            log.warning("the job does not use the checkpoint of another release in %s (%s); it rebuilds its state from "
                        "the tables. The old checkpoint is safe to delete.", self._base, ", ".join(others))  # fmt: skip

    def put_aside(self, why: str) -> None:
        """Rename the checkpoint, so that a new one begins. A checkpoint that was put aside before is replaced."""
        aside = f"{self.location}.aside"
        log.warning("the job moves the checkpoint %s aside to %s: %s; it rebuilds its state from the tables. The moved "
                    "folder is safe to delete.", self.location, aside, why.rstrip("."))  # fmt: skip
        self._files.delete(self._path(aside), True)
        if not self._files.rename(self._path(self.location), self._path(aside)):
            self._files.delete(self._path(self.location), True)

    def _misfit(self, topic: str, first_offset: int, *, are_tables_empty: bool) -> str | None:
        """Return why Spark cannot go on with the checkpoint, None if its files show no reason."""
        planned, done = self._numbers("offsets"), self._numbers("commits")
        has_metadata = self._files.exists(self._path(f"{self.location}/metadata"))
        if has_metadata and not self._text("metadata").strip():
            return "its file `metadata` is empty"
        if not planned and not done:
            return None
        if not has_metadata:
            return "its file `metadata` is missing"
        if are_tables_empty and done:
            return "it continues within the log, but the tables have no record yet (check delta.root)"
        next_offset = self._next_offset(max(done), topic) if done else first_offset
        if next_offset is None:
            return "it is damaged"
        return f"it continues before offset {first_offset}, the oldest in Kafka" if next_offset < first_offset else None

    def _next_offset(self, batch: int, topic: str) -> int | None:
        """Return the offset after a batch, from the last line of its offset log; None if that cannot be read."""
        if not self._files.exists(self._path(f"{self.location}/offsets/{batch}")):
            return None
        lines = self._text(f"offsets/{batch}").splitlines()
        with suppress(ValueError, IndexError, AttributeError):
            return int(json.loads(lines[2]).get(topic, {}).get("0", 0))
        return None

    def _text(self, name: str) -> str:
        stream = self._files.open(self._path(f"{self.location}/{name}"))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def _numbers(self, folder: str) -> list[int]:
        path = self._path(f"{self.location}/{folder}")
        if not self._files.exists(path):
            return []
        names = [status.getPath().getName() for status in self._files.listStatus(path)]
        return [int(name) for name in names if name.isdigit()]

    def _path(self, location: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(location)


def _is_on_local_disk(spark: SparkSession, location: str) -> bool:
    """Return whether Hadoop takes the location for a folder of this machine. No other file system is contacted."""
    default: str = spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS", "file:///")
    return urlsplit(location if "://" in location else default).scheme == "file"


def _path_and_files(spark: SparkSession, location: str) -> tuple[Any, Any]:
    """Return Hadoop's path of a location, and its file system."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    path = jvm.org.apache.hadoop.fs.Path(location)
    return path, path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
