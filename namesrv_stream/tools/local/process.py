"""Child processes that never outlive this one."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

# Reads until this process has ended, for whatever reason, and only then stops the child. CONT, because a paused
# process handles TERM only when it runs again.
_WATCH = 'read -r _; kill -TERM "$1"; kill -CONT "$1"'


class OwnedProcess:
    """A running child whose output goes to `log`; it is stopped when this process ends, even by SIGKILL.

    It has a session of its own: a Ctrl-C at the terminal reaches this process alone, which then stops its children in
    the right order.
    """

    def __init__(self, command: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None) -> None:
        self._is_paused = False
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
            )
        self._watch = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "watch", str(self._child.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The child's process id, also after the child has ended."""
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """The child's exit code, negative for a signal; None while it runs."""
        return self._child.poll()

    def stop(self, limit_s: float = 20) -> None:
        """Ask the child to end (SIGTERM), and kill it if it has not ended within the limit."""
        self.resume()
        self._child.terminate()
        try:
            self._child.wait(limit_s)
        except subprocess.TimeoutExpired:
            self._child.kill()
        self._forget()

    def kill(self) -> None:
        """End the child at once (SIGKILL), as a crash would."""
        self._child.kill()
        self._forget()

    def pause(self) -> None:
        """Pause the child (SIGSTOP), and return once it is paused: its connections stay open and nothing answers."""
        if self._is_paused or self._child.poll() is not None:
            return
        self._is_paused = True  # which the system tells once
        self._child.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(self._child.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            self._child.returncode = os.waitstatus_to_exitcode(status)  # it has ended, which is told once too

    def resume(self) -> None:
        """Let the child run on after `pause`."""
        self._is_paused = False
        self._child.send_signal(signal.SIGCONT)

    def _forget(self) -> None:
        self._watch.kill()  # before the child's pid is free for another process
        self._child.wait()
        self._watch.wait()
        if self._watch.stdin is not None:
            self._watch.stdin.close()
