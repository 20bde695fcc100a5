"""A Spark session for work in this process; under spark-submit the session comes from there."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from namesrv_stream.local.jars import CHECKOUT, retrieved_jars


def local_session(app_name: str, options: Mapping[str, str] | None = None, cores: str = "*") -> SparkSession:
    """`local[cores]` with conf/spark-defaults.conf, the jars of the checkout, and `options` over both.

    Python workers get this interpreter: another one on the PATH may lack the dependencies.
    """
    os.environ.setdefault("SPARK_CONF_DIR", str(CHECKOUT / "conf"))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName(app_name)
        .config("spark.jars", ",".join(map(str, sorted(retrieved_jars("spark").glob("*.jar")))))
        .config("spark.ui.enabled", "false")
        .config("spark.sql.warehouse.dir", str(Path(CHECKOUT, "data", "warehouse")))
    )
    for key, value in (options or {}).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
