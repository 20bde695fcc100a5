"""Processes of ours, servers among them, and the folders and ports that they have: nothing of others is touched."""

import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from namesrv_stream.errors import NamesrvError
from namesrv_stream.tools.local import process
from namesrv_stream.tools.local.process import (
    HOST,
    OwnedProcess,
    OwnedServer,
    ServerEndedError,
    bound_log,
    free_ports,
    owned_folder,
)
from tests.waiting import LIMIT_S, until


@pytest.fixture
def log(tmp_path):
    return tmp_path / "process.log"


def parent_of_a_child(log, then=""):
    """Another Python which owns a `sleep` and waits; it prints the child's pid."""
    program = f"""
        import os, signal
        from pathlib import Path
        from namesrv_stream.tools.local.process import OwnedProcess
        child = OwnedProcess(["sleep", "600"], Path({str(log)!r}))
        {then}
        print(child.pid, flush=True)
        input()
    """
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("then", ["", "os.kill(child.pid, signal.SIGSTOP)"], ids=["running", "paused"])
def test_child_ends_with_a_parent_that_was_killed(log, then):
    with parent_of_a_child(log, then) as parent:
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    child.wait(LIMIT_S)  # raises TimeoutExpired while it still runs


def test_a_child_that_ignores_sigterm_is_killed_after_the_limit(log):
    child = OwnedProcess(["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"], log)
    until(lambda: "ready" in log.read_text())
    child.stop(limit_s=0.2)
    assert child.exit_code == -signal.SIGKILL


def test_a_childs_output_is_in_its_log_and_its_exit_code_is_known(log):
    log.write_text("earlier\n")
    child = OwnedProcess(["/bin/sh", "-c", "echo out; echo err >&2; exit 7"], log)
    until(lambda: child.exit_code is not None)
    assert (child.exit_code, log.read_text()) == (7, "earlier\nout\nerr\n")
    child.stop()


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
    with pytest.raises(
        ServerEndedError, match=rf"(?s)Shell ended with exit code 3\. The last lines of {log}:.*no room"
    ):
        server.start()
    assert server.pid is None


def test_server_that_never_answers_is_ended(log):
    server = Shell(log, "echo $$; exec sleep 100", limit_s=5)
    with pytest.raises(ServerEndedError, match=r"did not respond within 5 s"):
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


ANEW = ("kafka", "registry")


def put(file):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    return file


def test_a_folder_has_one_owner_at_a_time(tmp_path):
    with (
        owned_folder(tmp_path / "data"),
        pytest.raises(NamesrvError, match=rf"{tmp_path}/data is in use by process {os.getpid()}\. .* --data"),
        owned_folder(tmp_path / "data"),
    ):
        pass
    with owned_folder(tmp_path / "data") as folder:
        assert folder.is_dir()


def test_only_what_is_made_anew_is_removed_from_a_folder_of_ours(tmp_path):
    with owned_folder(tmp_path / "data", made_anew=ANEW) as folder:
        old = [put(folder / name / "of" / "before") for name in ANEW]
        others = [put(folder / "notes" / "mine"), put(folder / "ask.sql")]
    with owned_folder(folder, made_anew=ANEW):
        assert not any(file.exists() for file in old)
        assert all(file.exists() for file in others)


@pytest.mark.parametrize("name", [".git/HEAD", "registry/table", "notes.txt"])
def test_nothing_is_touched_in_a_folder_that_is_not_ours(tmp_path, name):
    file = put(tmp_path / name)
    before = sorted(tmp_path.rglob("*"))
    with (
        pytest.raises(NamesrvError, match=f"{tmp_path} is not empty.* --data"),
        owned_folder(tmp_path, made_anew=ANEW),
    ):
        pass
    assert sorted(tmp_path.rglob("*")) == before
    assert file.exists()


def test_the_folder_of_a_registry_that_stays_is_not_ours_to_make_anew(tmp_path):
    """`up` and `demo` with the same --data: the tables of the one are kept from the other."""
    with owned_folder(tmp_path) as folder:
        table = put(folder / "registry" / "table")
    with pytest.raises(NamesrvError, match="is not empty"), owned_folder(folder, made_anew=ANEW):
        pass
    assert table.exists()


def test_ports_are_found_that_are_consecutive_and_that_nobody_uses_or_has_reserved(monkeypatch):
    reserved = free_ports(1)
    in_use, first = reserved + 2, reserved + 4
    looked_at = [29_999, 20_000, reserved, reserved + 1, in_use, in_use + 1, first, first + 1]
    monkeypatch.setattr(process, "_in_turn", iter(looked_at))
    with socket.create_server((HOST, in_use)):
        assert free_ports(2) == first


def test_a_log_over_its_limit_is_kept_once_beside_it_and_its_writer_goes_on(tmp_path):
    log, former = tmp_path / "server.log", tmp_path / "server.log.1"
    bound_log(log, 10)
    with log.open("ab", buffering=0) as writer:
        writer.write(b"first line\n")
        bound_log(log, 11)
        assert not former.exists()
        for text in (b"second\n", b"third, which is long\n"):
            writer.write(text)
            bound_log(log, 11)
        assert (former.read_bytes(), log.read_bytes()) == (b"third, which is long\n", b"")
        assert "third" in str(ServerEndedError("Kafka", "has died", log))
        writer.write(b"fourth\n")
    assert log.read_bytes() == b"fourth\n"
    assert str(ServerEndedError("Kafka", "has died", log)).endswith("fourth")


def test_a_log_is_cut_also_if_the_disk_has_no_room_for_a_copy(tmp_path, monkeypatch):
    def full(_from, to):
        Path(to).write_bytes(b"a part")
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(shutil, "copyfile", full)
    log = tmp_path / "server.log"
    log.write_bytes(b"first line\n")
    bound_log(log, 10)
    assert (log.read_bytes(), [each.name for each in tmp_path.iterdir()]) == (b"", ["server.log"])
