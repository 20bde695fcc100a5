"""Prepare the start of a Spark driver, by spark-submit or in this process: settings, jars, an archive of classes.

The archive (Java's class data sharing) has the classes that the job loads in their form in memory. Spark has some
15,000, and loading them takes a third of a start. Java uses no archive if a folder is on the class path.
`SPARK_CONF_DIR` would put one there, so the settings are passed by `--properties-file`.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import locale
import os
import pwd
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import javaproperties

from namesrv_stream.errors import NamesrvError, StorageError
from namesrv_stream.tools.local.jars import CONF, JARS, jars_of_sessions, pyspark_folder
from namesrv_stream.tools.local.process import HOST

PROGRAMS = ("route_registry", "maintain_tables")
"""The programs of jobs/."""

ARCHIVE = JARS / "job.jsa"
"""The archive of classes. Java ignores it after an update of Java, pyspark or the jars."""

_CLASS_PATH = "spark.driver.extraClassPath"
_JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
"""Setting of Java options that come before spark.driver.extraJavaOptions, which is left to the user."""

_WARNINGS_TO_STDERR = "-Xlog:disable -Xlog:all=warning:stderr"
"""Keeps Java's warning that an archive does not fit out of standard output, which has the command's own lines."""
_LINKED = ("bin", "jars")
_RUN, _LOCK = "run-", ".lock"
_NAMES_USERS = "libnss_wrapper.so"


class Submission(NamedTuple):
    """A command line of spark-submit and its environment."""

    command: list[str]
    environment: dict[str, str]


class DriverStart(NamedTuple):
    """A file of settings for spark-submit, and the options of Spark that win over it."""

    settings_file: Path
    options: dict[str, str]
    is_local: bool


def submission(
    program: str,
    arguments: Sequence[str],
    *,
    spark_options: Mapping[str, str] | None = None,
    records_archive: Path | None = None,
    temp: Path | None = None,
) -> Submission:
    """Return how spark-submit runs one of `PROGRAMS`; the options are those of `driver_start`."""
    start = driver_start(spark_options, records_archive=records_archive, temp=temp)
    home = spark_home(is_local=start.is_local)
    return Submission(
        [
            str(home / "bin" / "spark-submit"),
            *("--properties-file", str(start.settings_file)),
            *(word for key, value in start.options.items() for word in ("--conf", f"{key}={value}")),
            str(CONF.parent / "jobs" / f"{program}.py"),
            *arguments,
        ],
        _environment(home, is_local=start.is_local),
    )


def _environment(home: Path, *, is_local: bool) -> dict[str, str]:
    """Return the environment. Local workers use this Python; executors of a cluster have their own."""
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_CONF_DIR"}
    environment["SPARK_HOME"] = str(home)
    environment.setdefault("SPARK_LOCAL_IP", HOST)  # as conf/spark-env.sh
    environment.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    environment |= names_in_utf8() | named_login()
    if is_local:
        environment["PYSPARK_PYTHON"] = environment["PYSPARK_DRIVER_PYTHON"]
    return environment


def names_in_utf8() -> dict[str, str]:
    """Return the variables with which Java encodes the names of files as this Python does.

    In the locale C Python encodes them by UTF-8 (PEP 540), and Java by ASCII: a folder with other letters would be
    another one for each.
    """
    is_other = sys.getfilesystemencoding() == "utf-8" and locale.getencoding().lower() not in ("utf-8", "utf8")
    return {"LC_ALL": "C.UTF-8"} if is_other else {}


def named_login() -> dict[str, str]:
    """Return the variables by which Java finds a name and a home for a user who has none, as in a container.

    The login of Hadoop, which Spark uses, fails without a name. Raises NamesrvError if the machine has no way to give
    one.
    """
    number = os.getuid()
    with suppress(KeyError):
        pwd.getpwuid(number)
        return {}
    try:
        ctypes.CDLL(_NAMES_USERS)
    except OSError as error:
        raise NamesrvError(
            f"Spark needs a name for user {number}, which has none on this machine. Add the user to /etc/passwd, or "
            f"install {_NAMES_USERS} (Debian's package libnss-wrapper)."
        ) from error
    own = os.path.expanduser("~")  # noqa: PTH111 -- that of pathlib raises an error
    home = own if os.access(own, os.W_OK) else tempfile.gettempdir()
    with tempfile.NamedTemporaryFile("w", prefix="passwd-", delete=False) as file:
        file.write(f"{number}:x:{number}:{os.getgid()}::{home}:\n")
    preloaded = ":".join(filter(None, [os.environ.get("LD_PRELOAD"), _NAMES_USERS]))
    return {"LD_PRELOAD": preloaded, "NSS_WRAPPER_PASSWD": file.name, "NSS_WRAPPER_GROUP": "/etc/group"}


def driver_start(
    spark_options: Mapping[str, str] | None = None, *, records_archive: Path | None = None, temp: Path | None = None
) -> DriverStart:
    """Return how a driver starts.

    `spark_options`, such as spark.master, win over the file of settings. With `records_archive` Java uses no archive
    and writes one to this file when the driver ends. `temp` is the place of a folder for its temporary files.
    """
    file = _settings_file("spark-defaults.conf")
    of_file = javaproperties.loads(file.read_text(encoding="utf-8"))
    options = dict(spark_options or {})
    is_local = options.get("spark.master", of_file.get("spark.master", "local")).startswith("local")
    for key in {_CLASS_PATH, _JAVA_OPTIONS, *(["spark.jars"] if file.parent != CONF else [])} & of_file.keys():
        options.setdefault(key, of_file[key])
    _add_jars(options, is_local=is_local)
    log = _quoted(f"-Dlog4j2.configurationFile={_settings_file('log4j2.properties')}")
    java_options = [options.get(_JAVA_OPTIONS, ""), log]
    if temp is not None:
        try:
            own = own_temp_folder(temp)
        except OSError as error:
            raise StorageError(str(temp), str(error), "the temporary files", "job.tempFolder") from error
        java_options.append(_quoted(f"-Djava.io.tmpdir={own}"))  # spark.local.dir follows it
    if records_archive is not None:
        java_options.append(_quoted(f"-XX:ArchiveClassesAtExit={records_archive}"))
    elif ARCHIVE.exists():
        java_options = [_WARNINGS_TO_STDERR, *java_options, _quoted(f"-XX:SharedArchiveFile={ARCHIVE}")]
    options[_JAVA_OPTIONS] = " ".join(java_options).strip()
    return DriverStart(file, options, is_local)


def _quoted(option: str) -> str:
    """Return an option of Java as Spark reads it, whatever is in its path."""
    return '"' + option.replace("\\", r"\\").replace('"', r"\"") + '"'


def own_temp_folder(place: Path) -> Path:
    """Make a folder below `place` for the temporary files of one driver, and remove those that dead ones have left.

    A killed JVM leaves its native libraries, 15 MB for RocksDB alone. A folder is held by a lock that lasts until the
    process ends that this one has become, or else this one. Folder and lock are made under a guard, so a folder without
    a lock is of a process that died between the two.
    """
    place.mkdir(parents=True, exist_ok=True)
    with (place / _LOCK).open("a") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        for left in place.glob(f"{_RUN}*"):
            with suppress(OSError), (left / _LOCK).open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
        own = Path(tempfile.mkdtemp(prefix=_RUN, dir=place.resolve()))
        held = os.open(own / _LOCK, os.O_CREAT | os.O_RDWR)
        os.set_inheritable(held, True)  # over the exec of `submit`
        fcntl.flock(held, fcntl.LOCK_EX)
    return own


def _add_jars(options: dict[str, str], *, is_local: bool) -> None:
    """Add the fetched jars to the class path, so that the archive has their classes too, and send them to executors."""
    jars = [str(jar) for jar in jars_of_sessions()]
    own = options.get(_CLASS_PATH)
    options[_CLASS_PATH] = os.pathsep.join(([own] if own else []) + jars)
    options.setdefault("spark.jars", "" if is_local else ",".join(jars))


def _settings_file(name: str) -> Path:
    """Return a file of the user's SPARK_CONF_DIR, or else of conf/."""
    own = Path(os.environ.get("SPARK_CONF_DIR") or CONF, name).resolve()
    return own if own.exists() else CONF / name


def spark_home(*, is_local: bool) -> Path:
    """Return the SPARK_HOME of the environment, else pyspark's folder, or for local workers links to parts of it.

    Spark puts `python/lib/pyspark.zip` of its home before the packages of Python, and Python would compile pyspark from
    there anew in each process: 1.4 s a start. The links lead only to the programs and the jars. A cluster's driver may
    have to send `pyspark.zip`, so it gets the whole folder. So does a user who may not write beside the jars.
    """
    if given := os.environ.get("SPARK_HOME"):
        return Path(given)
    folder = pyspark_folder()
    if not is_local:
        return folder
    links = JARS / f"spark-home-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]}"  # one for each environment
    try:
        links.mkdir(parents=True, exist_ok=True)
        for name in _LINKED:
            with suppress(FileExistsError):
                (links / name).symlink_to(folder / name)
    except OSError:
        return folder
    return links
