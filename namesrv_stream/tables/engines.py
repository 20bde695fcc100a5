"""Which engine writes what: the setting `writer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from namesrv_stream.tables.publication import Writers
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.rust_writer import RustWriter
from namesrv_stream.tables.schemas import SNAPSHOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BULK_ROWS = 1_000_000


def choose_writers(writer: Literal["auto", "spark", "rust"], root: Root, spark: SparkSession) -> Writers:
    """`rust`: delta-rs for all. `spark`: Spark merges and appends. `auto`: Spark from BULK_ROWS changed rows on.

    The books (heads, claims, snapshot rows, restores) are delta-rs's wherever it reaches the storage, since each look
    at the log costs Spark a job; where it does not, Spark does everything, except under `rust`.
    """
    rust = RustWriter(root)
    if writer == "rust":
        return Writers.only(rust)
    from namesrv_stream.tables.spark_writer import SparkWriter  # noqa: PLC0415 -- `rust` runs without delta-spark

    by_spark = SparkWriter(spark, root)
    if not delta_rs_reaches(root):
        return Writers.only(by_spark)
    return Writers(everyday=rust, bulk=by_spark, bulk_rows=BULK_ROWS if writer == "auto" else 0)


def delta_rs_reaches(root: Root) -> bool:
    """Whether delta-rs knows the kind of storage and gets in; whether tables are there does not matter."""
    try:
        DeltaTable(root.uri(SNAPSHOT), storage_options=dict(root.storage_options or {}))
    except TableNotFoundError:
        return True
    except (DeltaError, OSError):
        return False
    return True
