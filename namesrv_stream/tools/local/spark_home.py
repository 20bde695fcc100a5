"""The home of Spark on this machine: one in which Python imports the pyspark that pip has compiled.

Spark puts `python/lib/pyspark.zip` of its home before the packages of Python. From there Python compiles pyspark anew
in each process, and the driver, the reader of the processor and the workers start one after the other: 1.4 s a start.
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from namesrv_stream.tools.local.jars import JARS, pyspark_folder

_LINKED = ("bin", "jars")


def spark_home(*, is_local: bool) -> Path:
    """Return the SPARK_HOME of the environment, else pyspark's folder, or for local workers links to parts of it.

    The links lead to the programs and the jars. A cluster's driver may have to send `pyspark.zip`, so it gets the whole
    folder. So does who may not write beside the jars: Spark only starts later then.
    """
    if given := os.environ.get("SPARK_HOME"):
        return Path(given)
    folder = pyspark_folder()
    if not is_local:
        return folder
    links = JARS / f"spark-home-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]}"  # one for each environment
    try:
        links.mkdir(parents=True, exist_ok=True)
        for name in _LINKED:
            with suppress(FileExistsError):
                (links / name).symlink_to(folder / name)
    except OSError:
        return folder
    return links
