"""The main job in a process of its own, whose storage is slow while a file exists:

python -m tests.system.slowed_job SETTINGS FILE
"""

import sys
import threading
import time
from pathlib import Path

from namesrv_stream.config import load_settings
from namesrv_stream.job.registry_job import RouteRegistryJob
from namesrv_stream.job.termination import stop_on_signals
from namesrv_stream.tools.local.spark import local_session

SLOW_S = 4.0


def main():
    settings, is_slow = load_settings(Path(sys.argv[1])), Path(sys.argv[2])

    def slow_down(step):
        if step.startswith("writing") and is_slow.exists():
            time.sleep(SLOW_S)

    spark = local_session("slowed-job", cores="2")
    stop = threading.Event()
    stop_on_signals(stop)
    RouteRegistryJob(spark, settings, slow_down).run(stop)
    spark.stop()


if __name__ == "__main__":
    main()
