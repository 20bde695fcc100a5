"""The one tree of errors that this package raises on purpose.

Each keeps its facts as attributes and says in its message what to do next. The command line prints the
message alone and ends with `exit_status`; a traceback is shown only with --debug.
"""

import difflib
import re
from collections.abc import Iterable

_TERMINAL_CODES = re.compile(r"\x1b\[[0-9;]*m")
_TIMES_OF_ATTEMPTS = re.compile(r" in [\d.]+m?s, after \d+ retries, max_retries:? \d+, retry_timeout:? \d+s")
_MAX_PROBLEM_CHARS = 1_000


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`Did you mean X? ` for the known word most like `word`, capital letters aside; empty if none is."""
    by_lower = {each.lower(): each for each in known}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1)
    return f"Did you mean {by_lower[found[0]]}? " if found else ""


class NamesrvError(Exception):
    """Base of all. `exit_status` is what a command that meets it ends with."""

    exit_status = 1


class SettingError(NamesrvError):
    """A setting that is unknown, misspelt or out of its range."""

    exit_status = 2

    def __init__(self, key: str, problem: str, next_step: str) -> None:
        super().__init__(f"setting {key}: {problem}. {next_step}")
        self.key = key
        self.problem = problem


class MalformedRecordError(NamesrvError):
    """A Kafka record that is no record of this project's contract; it changes nothing and is kept in `rejected`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class KafkaUnreachableError(NamesrvError):
    """Nobody answers at the Kafka address, or not in time. What was not acknowledged may be sent again."""

    def __init__(self, address: str, problem: str) -> None:
        super().__init__(
            f"Kafka at {address} does not answer ({problem}). Is it running, and is kafka.bootstrap.servers right?"
        )
        self.address = address
        self.problem = problem


class KafkaRefusedError(NamesrvError):
    """Kafka answered no. Trying again without a change will not help."""

    def __init__(self, address: str, problem: str) -> None:
        super().__init__(
            f"Kafka at {address} refused: {problem}. Check the topic, its limits and this client's rights on it."
        )
        self.address = address
        self.problem = problem


class StorageError(NamesrvError):
    """The storage of the tables refused a read or a write: no room, no right, no such place.

    `problem` is one line, the same for each attempt at the same thing.
    """

    def __init__(self, root: str, problem: str) -> None:
        one_line = " ".join(_TERMINAL_CODES.sub("", problem).replace("\u21b3", "").split())
        problem = _TIMES_OF_ATTEMPTS.sub("", one_line)[:_MAX_PROBLEM_CHARS]
        to_check = (
            "Are delta.root and delta.storage.* right, is the bucket there, and may these credentials write to it?"
            if "://" in root
            else "Is delta.root right, is there room, and may this user write there?"
        )
        super().__init__(
            f"the tables under {root} cannot be read or written: {problem}. {to_check} Nothing that Kafka has accepted "
            "is lost: the next run goes on from the last snapshot."
        )
        self.root = root
        self.problem = problem


class NotARegistryError(NamesrvError):
    """A folder without the registry's tables."""

    def __init__(self, root: str, table: str) -> None:
        super().__init__(
            f"{root} holds no registry: its table {table} is not there. Check delta.root; the job makes the tables "
            "when it first runs."
        )
        self.root = root
        self.table = table


class RegistryTooNewError(NamesrvError):
    """Tables written by a newer release, whose meaning this one cannot know."""

    def __init__(self, table: str, found: int, supported: int) -> None:
        super().__init__(
            f"table {table} has registry format {found}, this release knows up to {supported}. "
            "Update namesrv-stream here; the tables are not changed."
        )
        self.table = table
        self.found = found
        self.supported = supported


class SnapshotGoneError(NamesrvError):
    """A moment before the oldest snapshot that retention still keeps readable."""

    def __init__(self, asked: str, oldest: int) -> None:
        super().__init__(
            f"the snapshot of {asked} is past snapshot.retention; the oldest readable epoch is {oldest}. "
            "What changed before is in the table broker_event: `namesrv-stream history` and `why` tell it."
        )
        self.asked = asked
        self.oldest = oldest


class NoSuchSnapshotError(NamesrvError):
    """An epoch that has not been published, or a registry without any snapshot (`newest` None).

    `oldest`: where a time before the first snapshot was asked for, that snapshot, in words.
    """

    def __init__(self, asked: str, newest: int | None, oldest: str = "") -> None:
        first = f"the oldest is {oldest}, " if oldest else ""
        seen = (
            "nothing is published yet: is the job running?"
            if newest is None
            else f"{first}the newest epoch is {newest}, and `namesrv-stream snapshots` lists what can be read."
        )
        super().__init__(f"there is no snapshot of {asked}; {seen}")
        self.asked = asked
        self.newest = newest


class TermLostError(NamesrvError):
    """Another run has claimed the registry since; this one must stop. Nothing of it is published any more.

    A job that was replaced has ended as it should, so its exit status is 0.
    """

    exit_status = 0

    def __init__(self, term: int, newer_term: int, newer_run_id: str) -> None:
        super().__init__(
            f"run {newer_run_id} has taken the registry over with term {newer_term}; this run had term {term} and has "
            "stopped. Start a job with standby=true if it is to wait until it is needed again."
        )
        self.term = term
        self.newer_term = newer_term
        self.newer_run_id = newer_run_id
