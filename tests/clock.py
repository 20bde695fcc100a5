"""The clock of this machine, by which commands and the job judge how old a snapshot is."""

import time


def now_ms():
    return time.time_ns() // 1_000_000
