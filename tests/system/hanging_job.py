"""The main job in a process that finds a hang soon: python -m tests.system.hanging_job SETTINGS [--standby]"""

import sys
from pathlib import Path

from chaos.job import run_job
from namesrv_stream.job import hang_watch

if __name__ == "__main__":
    hang_watch.MAX_MISSED_PINGS, hang_watch.BATCH_LOOKS = 40, 60
    run_job(Path(sys.argv[1]), standby="--standby" in sys.argv)
