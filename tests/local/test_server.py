from pathlib import Path

import psutil
import pytest

from namesrv_stream.tools.local.process import OwnedServer, ServerEndedError


class Shell(OwnedServer):
    """A shell that answers once its log has `ready`; if the log has `interrupt`, somebody presses Ctrl-C."""

    name = "Shell"

    def __init__(self, log: Path, script: str, limit_s: float = 60) -> None:
        super().__init__(log)
        self._script = script
        self._limit_s = limit_s

    def start(self):
        self._run(["/bin/sh", "-c", self._script], self._answers, self._limit_s)
        return self

    def _answers(self):
        said = self._log.read_text()
        if "interrupt" in said:
            raise KeyboardInterrupt
        return "ready" in said


@pytest.fixture
def log(tmp_path):
    return tmp_path / "server.log"


def test_server_can_be_started_again_after_a_crash(log):
    server = Shell(log, "echo ready; exec sleep 100")
    with server:
        first = server.pid
        server.kill()
        assert server.pid is None
        server.kill()
        server.start()
        assert server.pid != first


def test_a_server_that_ends_at_once_is_an_error_with_its_output(log):
    server = Shell(log, "echo line 1; echo no room >&2; exit 3")
    with pytest.raises(ServerEndedError, match=rf"(?s)Shell ended with exit code 3; the end of {log}:.*no room"):
        server.start()
    assert server.pid is None


def test_server_that_never_answers_is_ended(log):
    server = Shell(log, "echo $$; exec sleep 100", limit_s=5)
    with pytest.raises(ServerEndedError, match=r"did not answer within 5 s"):
        server.start()
    assert not psutil.pid_exists(int(log.read_text()))


def test_start_that_is_interrupted_leaves_no_process(log):
    server = Shell(log, "echo $$; echo interrupt; exec sleep 100")
    with pytest.raises(KeyboardInterrupt):
        server.start()
    assert server.pid is None
    assert not psutil.pid_exists(int(log.read_text().split()[0]))


def test_a_server_is_paused_within_the_with_and_runs_on_after_it(log):
    with Shell(log, "echo ready; while :; do :; done") as server:
        shell = psutil.Process(server.pid)
        with server.paused():
            assert shell.status() == psutil.STATUS_STOPPED
        assert shell.status() != psutil.STATUS_STOPPED
