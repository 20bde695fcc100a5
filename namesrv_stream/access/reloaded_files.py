"""Files that are read again when they change: the users file, and those of the certificate."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from namesrv_stream.errors import NamesrvError

log = logging.getLogger(__name__)

T = TypeVar("T")


class ReloadedFiles(Generic[T]):
    """A value that `read` makes of files, and makes again when one changes. Unusable files leave it as it was."""

    def __init__(self, what: str, files: Sequence[Path], read: Callable[[], T]) -> None:
        """Read the files. Raises what `read` raises. `what`: the name of the value in the log."""
        self._what, self._files, self._read = what, files, read
        self._seen = self._stamps()
        self.value = read()

    def reload(self) -> None:
        """Read the files again if one has changed since the last call. Log it if they cannot be used."""
        seen = self._stamps()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self.value = self._read()
            log.info("the %s changed and was read again from %s", self._what, self._files[0])
        except NamesrvError as error:
            log.error("%s The former %s stays in force.", error, self._what)

    def _stamps(self) -> list[tuple[int, ...]]:
        return [_stamp(file) for file in self._files]


def _stamp(file: Path) -> tuple[int, ...]:
    try:
        found = file.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode
