"""A data folder that one process at a time has for itself."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from namesrv_stream.errors import NamesrvError


class FolderInUseError(NamesrvError):
    """Another process has the data folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder} is in use by another process of ours: stop that one, or give another with --data.")
        self.folder = folder


@contextmanager
def owned_folder(folder: Path, *, clear: bool = False) -> Iterator[Path]:
    """The folder, made where it is missing and emptied if `clear`; nobody else gets it within the `with`."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".in-use").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise FolderInUseError(folder) from error
        if clear:
            for entry in folder.iterdir():
                if entry.is_dir():
                    shutil.rmtree(entry)
        yield folder
