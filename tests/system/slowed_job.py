"""The main job in a process of its own, whose storage is slow while a file exists:

python -m tests.system.slowed_job SETTINGS FILE
"""

import sys
import time
from pathlib import Path

from chaos.job import run_job

SLOW_S = 4.0


def slow_down(step):
    if step.startswith("writing") and Path(sys.argv[2]).exists():
        time.sleep(SLOW_S)  # noqa: TID251 -- the storage is so slow


if __name__ == "__main__":
    run_job(Path(sys.argv[1]), slow_down)
