"""The main job in a process that ends itself by SIGKILL: `python -m tests.system.dying_job SETTINGS AT_COMMIT`.

Each commit on a table that changes together with others is counted; the snapshot row, which comes last, is not.
"""

import os
import signal
import sys
import threading
from itertools import count
from pathlib import Path

from chaos.job import run_job

commits, one_at_a_time = count(1), threading.Lock()


def die_in_time(step):
    with one_at_a_time:
        if step.startswith("written") and next(commits) == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    run_job(Path(sys.argv[1]), die_in_time)
