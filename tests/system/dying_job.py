"""The main job in a process that ends itself by SIGKILL: `python -m tests.system.dying_job SETTINGS AT_COMMIT`.

Each commit on a table that changes together with others is counted; the snapshot row, which comes last, is not.
"""

import os
import signal
import sys
import threading
from itertools import count
from pathlib import Path

from namesrv_stream.config import load_settings
from namesrv_stream.job.registry_job import RouteRegistryJob
from namesrv_stream.tools.local.spark import local_session


def main():
    settings, dies_at = load_settings(Path(sys.argv[1])), int(sys.argv[2])
    commits, one_at_a_time = count(1), threading.Lock()

    def die_in_time(step):
        with one_at_a_time:
            if step.startswith("written") and next(commits) == dies_at:
                os.kill(os.getpid(), signal.SIGKILL)

    spark = local_session("dying-job", cores="2")
    RouteRegistryJob(spark, settings, die_in_time).run(threading.Event())


if __name__ == "__main__":
    main()
