"""End a job whose JVM no longer answers, or whose micro-batch makes no step.

Such a job would hold Kafka's lock for ever, because its Python process still answers Kafka. The thread that counts
makes no calls that may hang; another thread calls the JVM. It counts looks, not seconds, because a paused
machine makes no looks.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Self

import psutil
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from namesrv_stream.job.failures import JobHungError, SessionLostError, require_session
from namesrv_stream.reporting.logs import OncePerMinute

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
MAX_MISSED_PINGS = 60
"""Looks without an answer after which the JVM counts as hung. A full garbage collection of the job's 1 GB takes
seconds."""

BATCH_LOOKS = 1_800
"""Looks without a step after which a running micro-batch counts as hung.

A step is a record applied, or a point of a publication.

The longest step is Spark's part of a micro-batch: 20,000 records of 1 MB, read twice, fit into this time at 25 MB a
second. A commit to a storage that does not answer ends after 180 s with an error of delta-rs.
"""

UNREADY_LOOKS = 5


class Hang:
    """Looks since the last answer of the JVM, and since the last step of the running micro-batch."""

    def __init__(self) -> None:
        self.missed_pings = self.still_looks = 0
        self._answers = 0
        self._seen: tuple[int, Hashable] = (0, None)

    def look(self, step: Hashable) -> JobHungError | None:
        """Count a look. Return the error if the job hangs.

        `step` is a different value after each step of a micro-batch, and None while none runs.
        """
        answers, former = self._seen
        self._seen = self._answers, step
        self.missed_pings = self.missed_pings + 1 if answers == self._answers else 0
        self.still_looks = 0 if step is None or step != former else self.still_looks + 1
        if self.missed_pings >= MAX_MISSED_PINGS:
            return JobHungError(f"the JVM of this job has not answered for {MAX_MISSED_PINGS * LOOK_EVERY_S:.0f} s",
                                "Check that the JVM is neither stopped nor swapped out, and that spark.driver.memory "
                                "is large enough, and start the job again.")  # fmt: skip
        if self.still_looks >= BATCH_LOOKS:
            return JobHungError(f"a micro-batch has made no step for {BATCH_LOOKS * LOOK_EVERY_S:.0f} s",
                                "Check that Spark's workers run and the storage of the tables responds, and start the "
                                "job again.")  # fmt: skip
        return None

    def note_answer(self) -> None:
        """Note an answer of the JVM. Another thread calls this."""
        self._answers += 1

    @property
    def problem(self) -> str | None:
        """The reason for which the job is not ready, None if there is none."""
        if self.missed_pings < UNREADY_LOOKS:
            return None
        return f"the JVM has not answered for {self.missed_pings * LOOK_EVERY_S:.0f} s"


class HangWatch:
    """Looks once a second within a `with`; leaving it raises JobHungError if the job hung.

    If the job hangs, it calls `give_up` and kills the JVM, which ends every call that waits for the JVM. `step` returns
    the query's last step; `is_in_batch` asks the JVM whether a micro-batch runs.
    """

    def __init__(
        self,
        spark: SparkSession,
        give_up: Callable[[], None],
        step: Callable[[], Hashable],
        is_in_batch: Callable[[], bool],
    ) -> None:
        self._hung: JobHungError | None = None
        self._hang = Hang()
        self._spark = spark
        self._jvm = psutil.Process(pid_of_jvm(spark))
        self._give_up = give_up
        self._step = step
        self._ask_is_in_batch = is_in_batch
        self._is_in_batch = False
        self._kinds = OncePerMinute()
        self._stopped = threading.Event()

    def __enter__(self) -> Self:
        for act in (self._look, self._ask_jvm):
            threading.Thread(target=self._act_on, args=(act,), name="hang-watch", daemon=True).start()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _at: object) -> None:
        self._stopped.set()
        if self._hung is not None:
            raise self._hung from error

    def health(self) -> str | None:
        """Return what ends this job, None if nothing does."""
        return None if self._hung is None else str(self._hung)

    def readiness(self) -> str | None:
        """Return that the JVM does not answer, None if it does."""
        return self._hang.problem

    def jvm_silent_s(self) -> float:
        """Return the seconds since the last answer of the JVM."""
        return self._hang.missed_pings * LOOK_EVERY_S

    def query_still_s(self) -> float:
        """Return the seconds since the last step of the running micro-batch."""
        return self._hang.still_looks * LOOK_EVERY_S

    def _act_on(self, act: Callable[[], None]) -> None:
        while self._hung is None and not self._stopped.wait(LOOK_EVERY_S):
            act()

    def _look(self) -> None:
        self._hung = self._hang.look(self._step() if self._is_in_batch else None)
        if self._hung is not None:
            self._give_up()
            _end_jvm(self._jvm, self._hung)

    def _ask_jvm(self) -> None:
        try:
            require_session(self._spark)
            self._hang.note_answer()
            self._is_in_batch = self._ask_is_in_batch()
        except (SessionLostError, Py4JError, OSError):
            pass  # the job ends by itself then
        except Exception as error:  # without this thread the JVM would seem silent
            if self._kinds.is_due(error):
                log.exception("the job cannot check its JVM: internal error")


def pid_of_jvm(spark: SparkSession) -> int:
    """Return the process id of the session's JVM, which runs on this machine."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    return int(jvm.java.lang.ProcessHandle.current().pid())


def _end_jvm(jvm: psutil.Process, why: JobHungError) -> None:
    """Kill the JVM. Write `why` to the JVM's own output first: under spark-submit the JVM is what prints our output."""
    if jvm.pid == os.getppid():
        with suppress(OSError):  # its output is a socket, or the system has no /proc
            output = os.open(f"/proc/{jvm.pid}/fd/2", os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)
            os.write(output, f"route_registry: {why}\n".encode())
            os.close(output)
    with suppress(psutil.Error):
        jvm.kill()
