"""A data folder that one process at a time owns."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from namesrv_stream.errors import NamesrvError

MARKER = ".made-anew-by-namesrv-stream"
"""A file that marks a folder of this command. Only there the command may remove the folders that it makes anew."""
_LOCK = ".in-use"


@contextmanager
def owned_folder(folder: Path, *, made_anew: Collection[str] = ()) -> Iterator[Path]:
    """Own the folder within the `with`; it is created if it is missing.

    Raises NamesrvError if another process owns it. Folders in it with the names `made_anew` are removed first. That
    needs a folder that was empty when it was first owned in this way. For any other folder it raises NamesrvError and
    removes nothing.
    """
    if made_anew:
        _check_ours(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.seek(0)
            holder = lock.read() or "unknown"
            raise NamesrvError(
                f"the folder {folder} is in use by process {holder}: stop that one, or give another with --data."
            ) from error
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        if made_anew:
            (folder / MARKER).touch()
        for name in made_anew:
            if (folder / name).exists():
                shutil.rmtree(folder / name)
        yield folder


def _check_ours(folder: Path) -> None:
    entries = {entry.name for entry in folder.iterdir()} if folder.exists() else set()
    if MARKER not in entries and entries - {_LOCK}:
        raise NamesrvError(
            f"{folder} is neither empty nor a folder that this command made before, so nothing in it is removed: "
            "give a new folder with --data, or remove this one if nobody needs it."
        )
