"""Which engine writes what: the setting `writer`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from namesrv_stream.config.storage import is_object_store
from namesrv_stream.errors import SettingError
from namesrv_stream.tables.object_store import require_conditional_put
from namesrv_stream.tables.publication import Writers
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.rust_writer import RustWriter
from namesrv_stream.tables.schemas import SNAPSHOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

BULK_ROWS = 2_000_000
"""Changed rows in one table from which `auto` lets Spark merge.

Time does not ask for it: on 2 cores, into 1,000,000 topic rows, delta-rs merges 1,000 rows in 0.3 s, 100,000 in 0.4 s
and 1,000,000 in 1.0 s, Spark in 5 to 10 s, 7.7 s and 19.5 s. Memory does: delta-rs merges in the driver's, which
1,000,000 rows bring to 1 GB; a merge of several million belongs on the executors.
"""


def choose_writers(writer: Literal["auto", "spark", "rust"], root: Root, spark: SparkSession) -> Writers:
    """`rust`: delta-rs for all. `spark`: Spark merges and appends. `auto`: Spark from BULK_ROWS changed rows on.

    The books (heads, claims, snapshot rows, restores) are delta-rs's wherever it reaches the storage, since each look
    at the log costs Spark a job; where it does not, Spark does everything, except under `rust`.

    On an object store delta-rs alone: it commits by a conditional put, Spark by looking first and writing then.
    """
    rust = RustWriter(root)
    if is_object_store(root.url):
        _require_safe_commits(writer, root)
        return Writers.only(rust)
    if writer == "rust":
        return Writers.only(rust)
    from namesrv_stream.tables.spark_writer import SparkWriter  # noqa: PLC0415 -- `rust` runs without delta-spark

    by_spark = SparkWriter(spark, root)
    if not delta_rs_reaches(root):
        return Writers.only(by_spark)
    return Writers(everyday=rust, bulk=by_spark, bulk_rows=BULK_ROWS if writer == "auto" else 0)


def _require_safe_commits(writer: str, root: Root) -> None:
    if writer == "spark":
        raise SettingError(
            "writer",
            f"spark is not accepted for {root.url}: of two jobs that commit to an object store by Spark at the same "
            "time, one overwrites the other",
            "Use rust, or leave it out.",
        )
    require_conditional_put(root)


def delta_rs_reaches(root: Root) -> bool:
    """Whether delta-rs knows the kind of storage and gets in; whether tables are there does not matter."""
    try:
        DeltaTable(root.uri(SNAPSHOT), storage_options=dict(root.storage_options or {}))
    except TableNotFoundError:
        return True
    except (DeltaError, OSError) as error:
        log.warning("delta-rs does not reach %s, so Spark writes all, which takes seconds: %s", root.url, error)
        return False
    return True
