"""conf/spark-env.sh, as Spark's own scripts read it."""

import os
import subprocess
from pathlib import Path

import pyspark
import pytest

from namesrv_stream.tools.local.jars import CHECKOUT


@pytest.mark.parametrize(("given", "address"), [({}, "127.0.0.1"), ({"SPARK_LOCAL_IP": "192.0.2.7"}, "192.0.2.7")])
def test_sparks_web_page_and_driver_listen_on_the_loopback_address_unless_another_is_set(given, address):
    spark = {"SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_CONF_DIR": str(CHECKOUT / "conf")}
    environment = {"PATH": os.environ["PATH"], **spark, **given}
    program = '. "$SPARK_HOME/bin/load-spark-env.sh" >&2; env'
    done = subprocess.run(["bash", "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert f"SPARK_LOCAL_IP={address}" in done.stdout.splitlines()
