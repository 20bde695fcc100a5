"""Object stores: give Spark access to one, and check that of two writers of one version only the first succeeds."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from namesrv_stream.config.values import is_object_store, s3a_options
from namesrv_stream.errors import NamesrvError
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.writer import RustWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHECKED = "namesrv.conditionalPut"
_CHECK_TABLE = "_conditional_put"
_RIVALS = 4
_ROUNDS = 3
"""Number of trials. delta-rs looks before it commits, so rivals collide only if they look at the same moment. On a busy
machine a trial may miss that."""


def give_spark_access(spark: SparkSession, root: Root) -> None:
    """Let all sessions of this Spark read and write at `root`, with the credentials that delta-rs has.

    It does nothing for a folder or HDFS. Raises NamesrvError if Spark lacks the jars for such a URL.
    """
    if not is_object_store(root.url):
        return
    context = spark.sparkContext
    hadoop: Any = context._jsc.hadoopConfiguration()
    for key, text in s3a_options(root.url, root.storage_options or {}, os.environ).items():
        hadoop.set(key, text)
    _require_connector(context._jvm, hadoop, root.hadoop_url)


def _require_connector(jvm: Any, hadoop: Any, url: str) -> None:
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 -- readers without Spark need not wait for the import

    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(url.partition("://")[0], hadoop)
    except Py4JJavaError as error:
        problem = str(error.java_exception.getMessage()).partition("\n")[0]
        raise NamesrvError(
            f"Spark cannot reach {url}: {problem}. For s3a://, run `namesrv-stream jars s3` once; it fetches "
            "hadoop-aws and the modules of the AWS SDK that it needs (12 MB). For other stores, give the jars of their "
            "connector (`spark-submit --jars`)."
        ) from error


def writer_of(root: Root) -> RustWriter:
    """Return the writer of a registry's tables. On an object store it commits by a conditional put.

    Raises NamesrvError if the store does not support that.
    """
    if is_object_store(root.url):
        require_conditional_put(root)
    return RustWriter(root)


def require_conditional_put(root: Root) -> None:
    """Raise NamesrvError if two writers can commit the same version of a table.

    The check runs once, on a table beside the registry's. The newest commit of that table records the result.
    """
    if _CHECKED in _check_table(root).history(1)[0]:
        return
    if any(_commits_of_one_version(root) > 1 for _ in range(_ROUNDS)):
        raise NamesrvError(
            f"the object store of {root.url} ignores conditional writes (If-None-Match: *), so two jobs can overwrite "
            "each other's commits. Use a store that supports them, or set "
            "delta.storage.aws_s3_locking_provider=dynamodb with its table."
        )
    _commit_first(_check_table(root), {_CHECKED: "kept"})


def _commits_of_one_version(root: Root) -> int:
    """Let rivals commit the next version of the table, and return how many succeeded."""
    rivals = [_check_table(root) for _ in range(_RIVALS)]
    together = Barrier(_RIVALS)

    def commits_first(table: DeltaTable) -> bool:
        together.wait()
        return _commit_first(table, {})

    with ThreadPoolExecutor(_RIVALS) as pool:
        return sum(pool.map(commits_first, rivals))


def _check_table(root: Root) -> DeltaTable:
    uri, options = f"{root.url.rstrip('/')}/{_CHECK_TABLE}", dict(root.storage_options or {})
    try:
        return DeltaTable(uri, storage_options=options)
    except TableNotFoundError:
        pass
    try:
        return DeltaTable.create(uri, pa.schema([("nothing", pa.string())]), storage_options=options)
    except DeltaError:  # another run has just made it
        return DeltaTable(uri, storage_options=options)


def _commit_first(table: DeltaTable, metadata: dict[str, str]) -> bool:
    """Commit to the table. Return False if somebody else committed first."""
    once = CommitProperties(max_commit_retries=0, custom_metadata=metadata)
    try:
        table.create_write_transaction([], "append", table.schema(), commit_properties=once)
    except CommitFailedError:
        return False
    return True
