"""Check the storage of tables and checkpoint (rights, room, several writers), the tables, and the certificate."""

from __future__ import annotations

import ctypes
import re
import shutil
import ssl
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler

from namesrv_stream.access.certificates import Certificates
from namesrv_stream.answers.job_status import doubt_of, facts_from_kafka, health, job_state
from namesrv_stream.answers.verdict import verdict_of
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.config.values import is_object_store
from namesrv_stream.errors import NamesrvError, NoSuchSnapshotError, NotARegistryError, PublicationLostError
from namesrv_stream.reporting.texts import age_text
from namesrv_stream.rules.commands import order_problem
from namesrv_stream.rules.lookup import ORDER_TOPIC_NAMESPACE
from namesrv_stream.tables.damage import Damage
from namesrv_stream.tables.damage_watch import require_publication
from namesrv_stream.tables.object_store import require_conditional_put
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.repair import damages
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshots import SnapshotTable
from namesrv_stream.tools.doctor import Finding

_A_LIBRARY = msgspec._core.__file__  # noqa: SLF001 -- any library that is certainly there
_SOON_DAYS = 30
_DAY_S = 86_400
_MIN_ROOM_BYTES = 1024**3
_MAX_NAMED = 10
_TRIAL_BYTES = 64 * 1024
_TRIAL = ".doctor-"
"""Beginning of the names of files and folders that are made only to check whether that is allowed."""


def check_tables(settings: NamesrvSettings) -> Iterator[Finding]:
    """Read the newest snapshot."""
    root = settings.delta_root
    try:
        newest = SnapshotTable(Root(root, settings.storage_options or None)).newest()
    except (NotARegistryError, NoSuchSnapshotError) as error:
        yield Finding("tables", "warning", str(error), "If this is a new registry, start the job.")
        return
    age = age_text(round(time.time() * 1000) - newest.published_at)
    yield Finding("tables", "ok", f"{root} can be read: snapshot {newest.epoch}, published {age}")


def check_files(settings: NamesrvSettings) -> Iterator[Finding]:
    """Read every file that the newest snapshot names, and compare its rows with those that `row_change` has last."""
    root = Root(settings.delta_root, settings.storage_options or None)
    found = damages(root)
    for damage in found:
        yield Finding(f"table {damage.table}", "failed", _told(damage), "`namesrv-stream repair` recovers what it can.")
    if not found:
        told = f"every file of the newest snapshot under {settings.delta_root} can be read, and row_change agrees"
        yield Finding("tables", "ok", told)
        try:
            require_publication(root)
        except PublicationLostError as error:
            yield Finding("snapshot", "warning", str(error))


def _told(damage: Damage) -> str:
    if not damage.file:
        return damage.problem
    return f"file {damage.file} {damage.problem}" + (f" (version {damage.version})" if damage.version >= 0 else "")


def check_writing(settings: NamesrvSettings) -> Iterator[Finding]:
    """Write beside the tables, as the job does, and let several writers commit the same version.

    In a folder the check uses a new subfolder and removes it. On an object store the small table `_conditional_put`
    stays, as after the job's first start.
    """
    if is_object_store(settings.delta_root):
        require_conditional_put(Root(settings.delta_root, settings.storage_options or None))
        yield Finding("commits", "ok", f"{settings.delta_root} accepts only one of several simultaneous commits")
        return
    if "://" in settings.delta_root:
        yield Finding("commits", "not checked", f"{settings.delta_root} is neither a folder nor an object store")
        return
    folder = _first_existing(Path(settings.delta_root).absolute())
    yield _room_in(folder)  # first: without room the next check may end with an error
    yield _commits_in(folder)


def check_checkpoint(settings: NamesrvSettings) -> Iterator[Finding]:
    """Write a file at `checkpoint.location` and remove it."""
    location = settings.checkpoint_location
    if is_object_store(location):
        problem = _object_problem(Root(location, settings.storage_options or None))
    elif "://" in location and not location.startswith("file://"):
        yield Finding("checkpoint", "not checked", f"{location} is neither a folder nor an object store")
        return
    else:
        problem = _folder_problem(Path(re.sub("^file:(//)?", "", location)).absolute())
    if problem:
        next_step = "Let this user write there, or set checkpoint.location to another place."
        yield Finding("checkpoint", "failed", f"{location} cannot be written: {problem}", next_step)
    else:
        yield Finding("checkpoint", "ok", f"{location} can be written")


def check_temp_folder(settings: NamesrvSettings) -> Iterator[Finding]:
    """Load a native library from where the job's Java will, and remove it."""
    folder = Path(settings.job_temp_folder).absolute()
    next_step = "Check that it is not mounted noexec, or set job.tempFolder to a folder where programs may run."
    if problem := _folder_problem(folder):
        yield Finding("temporary folder", "failed", f"{folder} cannot be written: {problem}", next_step)
        return
    try:
        with tempfile.NamedTemporaryFile(prefix=_TRIAL, suffix=".so", dir=_first_existing(folder)) as trial:
            trial.write(Path(_A_LIBRARY).read_bytes())
            trial.flush()
            ctypes.CDLL(trial.name)
    except OSError as error:
        problem = f"cannot load a native library from {folder}: {error}"
        yield Finding("temporary folder", "failed", problem, next_step)
    else:
        yield Finding("temporary folder", "ok", f"native libraries can be loaded from {folder}")


def _object_problem(place: Root) -> str:
    """Return why no object can be written below a URL, empty text if it can be."""
    try:
        store = DeltaStorageHandler(place.url, dict(place.storage_options or {}))
        store.open_output_stream(_TRIAL).close()
        store.delete_file(_TRIAL)
    except (DeltaError, OSError) as error:
        return " ".join(str(error).split())
    return ""


def _folder_problem(folder: Path) -> str:
    """Return why nothing can be written in a folder, or in its nearest parent that exists; empty text if it can be."""
    parent = next(each for each in (folder, *folder.parents) if each.exists() or each.is_symlink())
    if not parent.is_dir():
        is_what = "a file" if parent.exists() else "a broken link"
        return f"{'it' if parent == folder else parent} is {is_what}"
    try:
        with tempfile.NamedTemporaryFile(prefix=_TRIAL, dir=parent) as trial:
            trial.write(bytes(_TRIAL_BYTES))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _first_existing(path: Path) -> Path:
    """Return the path, or its nearest parent that exists."""
    return next(each for each in (path, *path.parents) if each.is_dir())


def _commits_in(folder: Path) -> Finding:
    next_step = "Let this user write there, or set delta.root to another place."
    try:
        trial = tempfile.mkdtemp(prefix=_TRIAL, dir=folder)
    except OSError as error:
        return Finding("commits", "failed", f"{folder} cannot be written: {error.strerror}", next_step)
    try:
        require_conditional_put(Root(trial))
    except NamesrvError as error:
        return Finding("commits", "failed", str(error))
    finally:
        shutil.rmtree(trial, ignore_errors=True)
    return Finding("commits", "ok", f"{folder} accepts only one of several simultaneous commits")


def _room_in(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    found = f"{folder} has {free / 1024**3:.1f} GiB free"
    if free < _MIN_ROOM_BYTES:
        return Finding("room", "warning", found, "Free space, or shorten snapshot.exact.")
    return Finding("room", "ok", found)


def check_contents(settings: NamesrvSettings) -> Iterator[Finding]:
    """Read the newest snapshot, and check its order configurations."""
    try:
        kv = Registry(settings.delta_root, settings.storage_options or None).newest().kv
    except (NotARegistryError, NoSuchSnapshotError):
        return
    table = kv.get(ORDER_TOPIC_NAMESPACE, {})
    problems = {topic: problem for topic, value in table.items() if (problem := order_problem(value))}
    for topic, problem in list(problems.items())[:_MAX_NAMED]:
        next_step = f"Set another value with `namesrv-stream updateKvConfig -s {ORDER_TOPIC_NAMESPACE} -k {topic}`."
        yield Finding("order configuration", "failed", f"topic {topic}: {problem}", next_step)
    if not problems:
        yield Finding("order configuration", "ok", f"{len(table)} values of {ORDER_TOPIC_NAMESPACE} can be read")


def check_health(settings: NamesrvSettings) -> Iterator[Finding]:
    """Give the health line of the newest snapshot: brokers, topics, and whether the job runs."""
    root = Root(settings.delta_root, settings.storage_options or None)
    try:
        registry = Registry(root, settings=settings).newest()
    except (NotARegistryError, NoSuchSnapshotError):
        return
    now_ms = time.time_ns() // 1_000_000
    found = health(registry, now_ms)
    state = job_state(found.progress.state, facts_from_kafka(settings, root, found.row))
    told = verdict_of(registry, doubt_of(state, found.row, now_ms))
    level: Literal["ok", "warning", "failed"] = "failed" if told.level == "critical" else told.level
    next_step = "" if told.level == "ok" else "`namesrv-stream clusterList` and `topicList` show each."
    yield Finding("health", level, told.text, next_step)


def check_certificate(settings: NamesrvSettings) -> Iterator[Finding]:
    """Read the files of tls.server.*, and do a TLS handshake with the certificate in memory."""
    certificates = Certificates(settings)
    if not certificates.is_set:
        yield Finding("certificate", "not checked", "tls.server.certPath is not set, so the gateway speaks plain text")
        return
    file = settings.tls_cert_path
    try:
        ends_s = certificates.end_of_validity_s()
    except ssl.SSLError as error:
        problem = getattr(error, "verify_message", "") or str(error)
        yield Finding("certificate", "failed", f"{file}: {problem}", "Replace it by a valid certificate.")
        return
    days = int((ends_s - time.time()) // _DAY_S)
    if days < _SOON_DAYS:
        yield Finding("certificate", "warning", f"{file} is valid for {days} days", "Renew it; no restart is needed.")
    else:
        yield Finding("certificate", "ok", f"{file} is valid for {days} days")
