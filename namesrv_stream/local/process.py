"""Child processes that never outlive this one."""

import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

# Reads until this process is gone, however it ended, and only then stops the child. CONT, because a paused
# process hears TERM only when it runs again.
_WATCH = 'read -r _; kill -TERM "$1"; kill -CONT "$1"'


class OwnedProcess:
    """A running child whose output goes to `log`; it is stopped when this process ends, be it by SIGKILL.

    It has a session of its own: a Ctrl-C at the terminal reaches this process alone, which then stops its children
    in the right order.
    """

    def __init__(self, command: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None) -> None:
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
        """The child's process id, its own also after it has ended."""
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """What it ended with, negative for a signal; None while it runs."""
        return self._child.poll()

    def stop(self, limit_s: float = 20) -> None:
        """Asks it to end (SIGTERM), and kills it when it has not within the limit."""
        self.resume()
        self._child.terminate()
        try:
            self._child.wait(limit_s)
        except subprocess.TimeoutExpired:
            self._child.kill()
        self._forget()

    def kill(self) -> None:
        """Ends it at once (SIGKILL), as a crash would."""
        self._child.kill()
        self._forget()

    def pause(self) -> None:
        """Stops it where it is (SIGSTOP): its connections stay open and nothing answers."""
        self._child.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets it go on after `pause`."""
        self._child.send_signal(signal.SIGCONT)

    def _forget(self) -> None:
        self._watch.kill()  # before the child's pid is free for another process
        self._child.wait()
        self._watch.wait()
        if self._watch.stdin is not None:
            self._watch.stdin.close()
