"""A data folder that one process at a time owns."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from namesrv_stream.errors import NamesrvError

MARKER = ".made-anew-by-namesrv-stream"
"""A file that marks a folder of this command. Only there the command may remove the folders that it makes anew."""
_LOCK = ".in-use"
_SERVED = ".served"
_LOOKED_AT_S = 1.0
_LOOK_EVERY_S = 0.05


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
        _hold(lock, f"{folder} is in use by", "give another with --data")
        if made_anew:
            (folder / MARKER).touch()
        for name in made_anew:
            if (folder / name).exists():
                shutil.rmtree(folder / name)
        yield folder


@contextmanager
def in_service(registry: str) -> Iterator[None]:
    """Mark a registry as served by this process within the `with`, if its tables are in a folder of this machine.

    Raises NamesrvError if another process serves it.
    """
    if "://" in registry:
        yield
        return
    Path(registry).mkdir(parents=True, exist_ok=True)
    with Path(registry, _SERVED).open("a+") as mark:
        next_step = "give other tables with --root, or let `namesrv-stream submit --standby` wait for its end"
        _hold(mark, f"the tables in {registry} are served by the `up` of", next_step)
        yield


def _hold(file: IO[str], problem: str, next_step: str) -> None:
    """Lock the file and write this process's id into it. Raises NamesrvError, which names who holds it, after 1 s.

    It waits that long for a process that only looks, as `is_in_service` does.
    """
    until_s = time.monotonic() + _LOOKED_AT_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if time.monotonic() > until_s:
                file.seek(0)
                holder = file.read() or "unknown"
                raise NamesrvError(f"{problem} process {holder}: stop that one, or {next_step}.") from error
            time.sleep(_LOOK_EVERY_S)
        else:
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            return


def is_in_service(registry: str) -> bool:
    """Return whether another process of this machine has marked the registry by `in_service`."""
    mark = Path(registry, _SERVED)
    if "://" in registry or not mark.exists():
        return False
    with mark.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def _check_ours(folder: Path) -> None:
    entries = {entry.name for entry in folder.iterdir()} if folder.exists() else set()
    if MARKER not in entries and entries - {_LOCK}:
        raise NamesrvError(
            f"{folder} is neither empty nor a folder that this command made before, so nothing in it is removed: "
            "give a new folder with --data, or remove this one if nobody needs it."
        )
