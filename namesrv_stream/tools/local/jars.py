"""Find the Java that Spark and Kafka run on, and fetch the jars that pip does not fetch.

`conf/ivy.xml` lists the jars, the Ivy inside pyspark fetches them. Each configuration of `conf/ivy.xml` has its folder
`jars/<configuration>`: of the checkout, or of the user's cache if the package was installed from a wheel, which has
`conf` inside. Ivy keeps what it downloaded in the user's Ivy cache, so that a second checkout copies instead of
downloading; that of a user without a home is beside the jars.

`python -m namesrv_stream.tools.local.jars CONFIGURATION ...` fetches jars; without a configuration it looks for Java.
"""

import errno
import fcntl
import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from namesrv_stream.errors import NamesrvError

OLDEST_JAVA = 17
CHECKOUT = Path(__file__).resolve().parents[3]
_IS_CHECKOUT = (CHECKOUT / "conf" / "ivy.xml").exists()
CONF = CHECKOUT / "conf" if _IS_CHECKOUT else Path(__file__).resolve().parents[2] / "conf"
"""The folder of the settings files: that of the checkout, else the copy that a wheel brings."""
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))  # noqa: PTH111 -- of no home it is `~`
HOME = CHECKOUT if _IS_CHECKOUT else _CACHE / "namesrv-stream"
"""The folder for fetched and generated files: the checkout, else one in the user's cache."""
IVY_FILE = CONF / "ivy.xml"
JARS = HOME / "jars"
_DOWNLOAD = re.compile(r"downloading \S*/(\S+\.jar) ")
"""Matches Ivy's line about a jar that it fetches; the group is the jar's name."""
_LINES_OF_AN_ERROR = 40


@functools.cache
def find_java() -> Path:
    """Return the `java` of JAVA_HOME, or else of PATH, as Spark does.

    Raises NamesrvError if it is none of 17 or newer.
    """
    if home := os.environ.get("JAVA_HOME"):
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise _no_java(f"JAVA_HOME is {home}, which has no bin/java")
    else:
        found = shutil.which("java")
        if found is None:
            raise _no_java("JAVA_HOME is not set and no java is on PATH")
        java = Path(found)
    version = java_version(java)
    if major_version(version) < OLDEST_JAVA:
        raise NamesrvError(
            f"{java} is Java {version}, and Spark needs {OLDEST_JAVA} or newer. "
            f"Install Java {OLDEST_JAVA} and point JAVA_HOME at it."
        )
    return java


def java_version(java: Path) -> str:
    """Return the version that `java -version` prints. Raises NamesrvError if it prints none."""
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "([^"]+)"', output)
    if version is None:  # such as macOS's /usr/bin/java, which only prints where to download one
        raise _no_java(f"{java} does not start")
    return version[1]


def major_version(version: str) -> int:
    """Return 17 for "17.0.15", 21 for "21-ea", and 8 for "1.8.0_392", the numbering of Java before 9."""
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _no_java(looked_at: str) -> NamesrvError:
    return NamesrvError(
        f"no Java found: {looked_at}. Install Java {OLDEST_JAVA} or newer (on Debian "
        f"openjdk-{OLDEST_JAVA}-jre-headless), or point JAVA_HOME at one."
    )


def retrieved_jars(configuration: str) -> Path:
    """Return the folder with the jars of one configuration of `conf/ivy.xml`.

    Fetches them first if they are missing or old.
    """
    folder = JARS / configuration
    if not is_retrieved(configuration):
        with _locked(configuration):  # another process may be fetching the same
            if not is_retrieved(configuration):
                _retrieve(configuration, folder)
                _stamp(configuration).write_text(_wanted())
    return folder


@contextmanager
def _locked(configuration: str) -> Iterator[None]:
    """Make the folder of a configuration, and hold its lock. Raises NamesrvError if this user cannot write there."""
    try:
        if str(HOME).startswith("~"):
            raise OSError(errno.ENOENT, "this user has no home folder")
        (JARS / configuration).mkdir(parents=True, exist_ok=True)
        lock = (JARS / f".{configuration}.lock").open("w")
    except OSError as error:
        place = "" if _IS_CHECKOUT else ", or set XDG_CACHE_HOME to a folder where this user may write"
        raise NamesrvError(
            f"cannot write the jars of {configuration} to {JARS}: {str(error.strerror).lower()}. Run "
            f"`namesrv-stream jars` once as a user who may write there{place}."
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _ivy_folder() -> Path:
    """Return the folder of Ivy's cache: the user's, or one beside the jars if this user has no home or cannot write."""
    own = Path(os.path.expanduser("~/.ivy2"))  # noqa: PTH111 -- as above
    return own if os.access(own if own.exists() else own.parent, os.W_OK) else JARS / ".ivy2"


def is_retrieved(configuration: str) -> bool:
    """Return whether the jars of a configuration are there, fetched for this `conf/ivy.xml`."""
    stamp = _stamp(configuration)
    return stamp.exists() and stamp.read_text() == _wanted()


def _stamp(configuration: str) -> Path:
    return JARS / configuration / "ivy.xml.sha256"


def _wanted() -> str:
    return hashlib.sha256(IVY_FILE.read_bytes()).hexdigest()


def _retrieve(configuration: str, folder: Path) -> None:
    pattern = f"{folder}/[artifact]-[revision](-[classifier]).[ext]"
    options = ["-confs", configuration, "-types", "jar", "bundle", "-retrieve", pattern, "-sync"]
    java = [str(find_java()), f"-Divy.home={_ivy_folder()}"]  # Java takes the home folder of /etc/passwd, else `?`
    command = [*java, "-jar", str(pyspark_jar("ivy")), "-ivy", str(IVY_FILE), *options]
    last_lines: deque[str] = deque(maxlen=_LINES_OF_AN_ERROR)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ivy:
        assert ivy.stdout is not None
        for line in ivy.stdout:
            last_lines.append(line)
            if download := _DOWNLOAD.match(line):
                click.echo(f"downloading {download[1]}", err=True)
    if ivy.returncode != 0:
        raise NamesrvError(
            f"cannot fetch the jars of {configuration} in {IVY_FILE}. Check the network; behind a proxy, "
            f"name it in JAVA_TOOL_OPTIONS.\n{''.join(last_lines)[-2000:]}"
        )


def jars_of_sessions() -> list[Path]:
    """Return the jars of a session's class path: Spark's, and those of s3a:// if they were fetched."""
    folders = [retrieved_jars("spark"), *([retrieved_jars("s3")] if (JARS / "s3").exists() else [])]
    return sorted(jar for folder in folders for jar in folder.glob("*.jar"))


def pyspark_jar(name: str) -> Path:
    """Return a jar that pyspark brings, such as `ivy`."""
    return next((pyspark_folder() / "jars").glob(f"{name}-*.jar"))


def pyspark_folder() -> Path:
    """Return the folder of pyspark without importing it, which would take a second."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise NamesrvError("pyspark, which brings Spark and Ivy, is not installed. Run `make install`.")
    return Path(spec.origin).parent


if __name__ == "__main__":
    try:
        if not sys.argv[1:]:
            find_java()
        for name in sys.argv[1:]:
            click.echo(f"jars of {name}: {retrieved_jars(name)}")
    except NamesrvError as error:
        sys.exit(str(error))
