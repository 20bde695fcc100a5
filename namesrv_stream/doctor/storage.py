"""Checks of the storage of the tables: rights, room, and commits of two writers at once."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.config.storage import is_object_store
from namesrv_stream.doctor.finding import Finding
from namesrv_stream.errors import NamesrvError, NoSuchSnapshotError, NotARegistryError
from namesrv_stream.tables.object_store import require_conditional_put
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshots import Snapshots

_LEAST_ROOM_BYTES = 1024**3


def check_tables(settings: NamesrvSettings) -> Iterator[Finding]:
    """Read the newest snapshot."""
    root = settings.delta_root
    try:
        newest = Snapshots(Root(root, settings.storage_options or None)).newest()
    except (NotARegistryError, NoSuchSnapshotError) as error:
        yield Finding("tables", "warning", str(error), "Start the job, if this is a new registry.")
        return
    age_s = time.time() - newest.published_at / 1000
    yield Finding("tables", "ok", f"{root} can be read: epoch {newest.epoch}, published {age_s:.0f} s ago")


def check_writing(settings: NamesrvSettings) -> Iterator[Finding]:
    """Write beside the tables, as the job does, and let several writers commit the same version.

    A folder is tried in a folder of its own, which is removed. On an object store the small table `_conditional_put`
    stays, as after the job's first start.
    """
    if is_object_store(settings.delta_root):
        require_conditional_put(Root(settings.delta_root, settings.storage_options or None))
        yield Finding("commits", "ok", f"{settings.delta_root} lets one of several writers win")
        return
    if "://" in settings.delta_root:
        yield Finding("commits", "not checked", f"{settings.delta_root} is neither a folder nor an object store")
        return
    folder = _first_existing(Path(settings.delta_root).absolute())
    yield _commits_in(folder)
    yield _room_in(folder)


def _first_existing(path: Path) -> Path:
    """Return the path, or its nearest parent that exists."""
    return next(each for each in (path, *path.parents) if each.is_dir())


def _commits_in(folder: Path) -> Finding:
    next_step = "Let this user write there, or set delta.root to another place."
    try:
        trial = tempfile.mkdtemp(prefix=".doctor-", dir=folder)
    except OSError as error:
        return Finding("commits", "failed", f"{folder} cannot be written: {error.strerror}", next_step)
    try:
        require_conditional_put(Root(trial))
    except NamesrvError as error:
        return Finding("commits", "failed", str(error))
    finally:
        shutil.rmtree(trial, ignore_errors=True)
    return Finding("commits", "ok", f"{folder} lets one of several writers win")


def _room_in(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    found = f"{folder} has {free / 1024**3:.1f} GiB left"
    if free < _LEAST_ROOM_BYTES:
        return Finding("room", "warning", found, "Make room, or shorten snapshot.retention.")
    return Finding("room", "ok", found)
