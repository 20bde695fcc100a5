"""Checks that Spark, on all its machines, reaches the place of the checkpoint."""

from __future__ import annotations

from pyspark.sql import SparkSession

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.config.storage import is_object_store
from namesrv_stream.errors import SettingError
from namesrv_stream.tables.object_store import give_spark_access
from namesrv_stream.tables.root import Root


def reach_checkpoint(spark: SparkSession, settings: NamesrvSettings) -> None:
    """Give Spark access to `checkpoint.location`. Raises SettingError if the executors cannot reach it."""
    require_shared_checkpoint(settings, str(spark.sparkContext.master))
    give_spark_access(spark, Root(settings.checkpoint_location, settings.storage_options))


def require_shared_checkpoint(settings: NamesrvSettings, master: str) -> None:
    """Raise SettingError for a folder of this machine if Spark's executors run on others.

    Of tables in a folder it is not known whether all machines share that folder, so nothing is asked then.
    """
    location = settings.checkpoint_location
    if is_object_store(settings.delta_root) and "://" not in location and not master.startswith("local"):
        raise SettingError(
            "checkpoint.location",
            f"{location} is a folder of one machine, and Spark runs on several ({master})",
            "Give a place that all of them reach, by its URL: s3a://..., hdfs://... or file:///... on a shared disk.",
        )
