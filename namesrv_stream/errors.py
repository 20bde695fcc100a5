"""The one tree of errors that this package raises on purpose.

Each keeps its facts as attributes and says in its message what to do next. The command line prints the
message alone and ends with `exit_status`; a traceback is shown only with --debug.
"""

import difflib
from collections.abc import Iterable


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
