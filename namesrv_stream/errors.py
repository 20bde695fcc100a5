"""The errors that this package raises on purpose, all descended from NamesrvError.

Each message has the facts and the next step. Facts that other code reads are attributes too. The command line prints
only the message and exits with `exit_status`; with --debug it shows a traceback too.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from namesrv_stream import __version__

MASK = "******"

_USER_IN_ADDRESS = re.compile(r"""://[^\s"'<>]*@""")
_USER_OF_RUST = re.compile(r'(username: |password: Some\()"(?:[^"\\]|\\.)+"')
"""User and password as delta-rs prints them when it prints a parsed address."""

_MIN_CHARS = 6
"""Fewest characters of a secret that is hidden. A shorter one would be found in the middle of words."""

_noted: set[str] = set()

_TERMINAL_CODES = re.compile(r"\x1b\[[0-9;]*m")
_TIMES_OF_ATTEMPTS = re.compile(r" in [\d.]+m?s, after \d+ retries, max_retries:? \d+, retry_timeout:? \d+s")
_CONNECT = re.compile(r"^Connect to ipv[46]#\S+ failed: ")
_MAX_PROBLEM_CHARS = 1_000


def note_secrets(values: Iterable[str]) -> None:
    """Hide these values wherever they appear from now on."""
    _noted.update(value for value in values if len(value) >= _MIN_CHARS)


def masked(text: str) -> str:
    """Return the text as it may be printed: without user and password of an address, and without noted secrets."""
    for secret in sorted(_noted, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return _USER_OF_RUST.sub(rf'\1"{MASK}"', _USER_IN_ADDRESS.sub(f"://{MASK}@", text))


def did_you_mean(word: str, known: Iterable[str], most: int = 1) -> str:
    """Return `Similar: X. ` with the known words most like `word`, ignoring case; empty text if none is similar.

    It names `most` words at most: the shortest that contain `word`, then the most similar.
    """
    by_lower = {each.lower(): each for each in known}
    longer = sorted((each for each in by_lower if len(word) > 2 and word.lower() in each), key=len)
    near = dict.fromkeys([*longer, *difflib.get_close_matches(word.lower(), by_lower, n=most)])
    found = [by_lower[each] for each in near][:most]
    return f"Similar: {', '.join(found)}. " if found else ""


class NamesrvError(Exception):
    """Base of all errors of this package. A command that ends with this error exits with `exit_status`."""

    exit_status = 1

    def __str__(self) -> str:
        """Return the message without secrets."""
        return masked(super().__str__())

    def __reduce__(self) -> tuple[Callable[..., NamesrvError], tuple[Any, ...]]:
        """Pickle the message and the facts, because a body process sends its errors to the gateway."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[NamesrvError], args: tuple[Any, ...], facts: dict[str, Any]) -> NamesrvError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(facts)
    return error


class SettingError(NamesrvError):
    """A setting that is unknown, misspelt or out of its range, or an option that names settings."""

    exit_status = 2

    def __init__(self, key: str, problem: str, next_step: str) -> None:
        joint = " " if problem.startswith(("is ", "has ", "in ", "on ")) else ": "
        super().__init__(f"{'option' if key.startswith('-') else 'setting'} {key}{joint}{problem}. {next_step}")
        self.key = key


class MalformedRecordError(NamesrvError):
    """A Kafka record that violates the record contract. The job keeps it in table `rejected` and changes nothing."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class KafkaUnreachableError(NamesrvError):
    """No Kafka answers at the address within the limit. A sender may send a record again that was not acknowledged."""

    def __init__(self, address: str, problem: str) -> None:
        cause = _CONNECT.sub("", problem)
        if not cause.split(":", 1)[0].endswith("Exception"):
            cause = cause[:1].lower() + cause[1:]
        super().__init__(
            f"cannot reach Kafka at {address}: {cause}. Check that Kafka is running, and the settings "
            "kafka.bootstrap.servers and kafka.security.protocol."
        )


class KafkaMisaddressedError(KafkaUnreachableError):
    """Kafka answers at its bootstrap address, and announces addresses for its nodes that cannot be reached from here.

    `announced`: such an address of host and port -> why it cannot be reached.
    """

    def __init__(self, address: str, announced: Mapping[str, str]) -> None:
        nodes = ", ".join(f"{each} ({problem})" for each, problem in announced.items())
        NamesrvError.__init__(
            self,
            f"Kafka at {address} announces addresses that cannot be reached from here: {nodes}. Set "
            "advertised.listeners of these nodes to addresses that this machine can reach, or repair DNS and routing.",
        )
        self.announced = announced


class KafkaRefusedError(NamesrvError):
    """Kafka refused a request. The same request will be refused again."""

    def __init__(self, address: str, problem: str) -> None:
        super().__init__(
            f"Kafka at {address} rejected the request: {problem}. Check the topic, its limits and the rights of this "
            "client."
        )


class StorageError(NamesrvError):
    """The storage of the tables refused a read or a write: no room, no right, no such place.

    Repeated attempts at the same thing give the same message, so that it is logged once.
    """

    def __init__(self, root: str, problem: str, place: str = "the tables", setting: str = "delta.root") -> None:
        one_line = " ".join(_TERMINAL_CODES.sub("", problem).replace("\u21b3", "").split())
        problem = _TIMES_OF_ATTEMPTS.sub("", one_line)[:_MAX_PROBLEM_CHARS]
        to_check = (
            f"Check {setting} and delta.storage.*, that the bucket exists, and that these credentials may write to it."
            if "://" in root
            else f"Check {setting}, the free space, and that this user may write there."
        )
        super().__init__(
            f"cannot read or write {place} under {root}: {problem}. {to_check} No record is lost; the next run "
            "continues from the last snapshot."
        )
        self.root = root


class TableDamagedError(StorageError):
    """A file of a table is missing, cut short or changed."""

    def __init__(self, root: str, table: str, version: int, file: str, problem: str) -> None:
        NamesrvError.__init__(
            self,
            f"cannot read table {table} under {root}{f' at version {version}' if version >= 0 else ''}: its file "
            f"{file} {problem}. `namesrv-stream doctor --tables` lists all damaged files. `namesrv-stream repair` "
            "repairs them, and asks before it drops rows that are lost.",
        )


class PublicationLostError(NamesrvError):
    """Tables have rows of an epoch that no row of `snapshot` has: a run died as it published, or that row is lost."""

    def __init__(self, root: str, epoch: int, newest: int, offset: int) -> None:
        super().__init__(
            f"the tables under {root} have rows of epoch {epoch}, but table snapshot ends at epoch {newest}: a job "
            "died while it published, or a commit of snapshot is missing. Start the job: it reads the log again from "
            f"offset {offset:,}. Until then commands show snapshot {newest}."
        )
        self.epoch = epoch
        self.newest = newest
        self.offset = offset


class NotARegistryError(NamesrvError):
    """A folder without the registry's tables."""

    def __init__(self, root: str, table: str) -> None:
        super().__init__(
            f"no registry at {root}: table {table} is missing. Check --root (setting delta.root). The job creates the "
            "tables at its first start."
        )
        self.table = table


class TablesTooOldError(NamesrvError):
    """Tables of a format from before the first release. Nothing carries them on."""

    def __init__(self, root: str, table: str, found: str) -> None:
        super().__init__(
            f"table {table} under {root} has registry format {found}, which no release supports. Use another "
            "delta.root: brokers register there again within a minute. `export` of the commit that created the tables "
            "writes KV values and settings to a file."
        )
        self.root = root
        self.table = table


class TablesTooNewError(NamesrvError):
    """A table of a later release. `release` is the one that wrote it, None if the table does not name it."""

    def __init__(self, root: str, table: str, problem: str, release: str | None) -> None:
        super().__init__(
            f"table {table} under {root} {problem}. This is namesrv-stream {__version__}; start "
            f"{release or 'the release that wrote it'} or a later one. No row was changed."
        )
        self.release = release


class SnapshotGoneError(NamesrvError):
    """A moment of which no whole snapshot is kept. `nearest` is the epoch of one that is."""

    def __init__(self, asked: str, nearest: int) -> None:
        super().__init__(
            f"the files of the snapshot as of {asked} are not kept any more. The nearest complete one is snapshot "
            f"{nearest}; `namesrv-stream snapshots` lists all. --as-of answers for any time from the history."
        )
        self.asked = asked


class PastUnknownError(NamesrvError):
    """A question about a time of which the history has lost rows. `unknown` has its bounds (tables/holes.py)."""

    def __init__(self, message: str, unknown: object) -> None:
        super().__init__(message)
        self.unknown = unknown


class NoSuchSnapshotError(NamesrvError):
    """An epoch that has not been published, or a registry without any snapshot (`newest` is None).

    `oldest` describes the first snapshot if the time that was asked for lies before it.
    """

    def __init__(self, asked: str, newest: int | None, oldest: str = "") -> None:
        first = f"The history begins at {oldest}. The" if oldest else "The"
        seen = (
            "Nothing is published yet. Check that the job is running."
            if newest is None
            else f"{first} newest is snapshot {newest}; `namesrv-stream snapshots` lists them."
        )
        missing = f"snapshot {asked.removeprefix('epoch ')} does not exist" if asked.startswith("epoch ") else ""
        super().__init__(f"{missing or f'no snapshot as of {asked}'}. {seen}")


class TermLostError(NamesrvError):
    """Another run has claimed the registry with a newer term; this run must stop and can publish nothing more.

    The exit status is 0, because a job that was replaced has ended in order.
    """

    exit_status = 0

    def __init__(self, term: int, newer_term: int, newer_run_id: str) -> None:
        super().__init__(
            f"run {newer_run_id} has taken over (term {newer_term}); this run (term {term}) has stopped. To keep a "
            "standby, start a job with standby=true."
        )
        self.newer_term = newer_term
        self.newer_run_id = newer_run_id


class FrameError(NamesrvError):
    """The bytes of a connection cannot be decoded any more. Close the connection without an answer."""


class BadRequestError(NamesrvError):
    """A bad request in a good frame. Answer it with SYSTEM_ERROR and `remark`."""

    def __init__(self, message: str, remark: str | None = None) -> None:
        super().__init__(message)
        self.remark = remark or message


def malformed_header(reason: str) -> FrameError:
    """Return the error for a header of the right length whose content cannot be read."""
    return FrameError(f"cannot read header: {reason}. Check the peer's client and its serialize type")


def malformed_body(body: str, reason: object, remark: str | None = None) -> BadRequestError:
    """Return the error for a body that is not as its request code requires. `body`: RocketMQ's name of its class."""
    return BadRequestError(f"Failed to decode {body}: {reason}. Check the sender's version", remark)


def bad_field(request: str, reason: str, remark: str | None = None) -> BadRequestError:
    """Return the error for a header field that is missing or has a bad value. `reason` names the field."""
    return BadRequestError(f"{request}: {reason} of extFields. Correct it and send the request again", remark)


def unprintable_name(request: str, field: str, name: str) -> BadRequestError:
    """Return the error for a name with control characters, because names get into logs, tables and terminals."""
    return BadRequestError(f"{request}: {field} {name[:100]!a} has characters that cannot be printed. Use another name")
