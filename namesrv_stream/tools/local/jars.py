"""Fetches the jars that pip does not: `conf/ivy.xml` lists them, the Ivy inside pyspark fetches them.

Each configuration of `conf/ivy.xml` has its folder `jars/<configuration>`: of the checkout, or of the user's cache if
the package was installed from a wheel, which has `conf` inside. Ivy keeps what it downloaded in the user's Ivy cache,
so that a second checkout copies instead of downloading.
"""

import fcntl
import hashlib
import importlib.util
import os
import re
import subprocess
import sys
from collections import deque
from pathlib import Path

import click

from namesrv_stream.errors import NamesrvError
from namesrv_stream.tools.local.java import find_java

CHECKOUT = Path(__file__).resolve().parents[3]


def _conf() -> Path:
    """Return the folder of the settings files: that of the checkout, else the copy that a wheel brings."""
    in_checkout = CHECKOUT / "conf"
    return in_checkout if (in_checkout / "ivy.xml").exists() else Path(__file__).resolve().parents[2] / "conf"


def _home() -> Path:
    """Return the folder for what is fetched and made: the checkout, else one of the user's cache."""
    if (CHECKOUT / "conf" / "ivy.xml").exists():
        return CHECKOUT
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "namesrv-stream"


CONF = _conf()
HOME = _home()
IVY_FILE = CONF / "ivy.xml"
JARS = HOME / "jars"
_DOWNLOAD = re.compile(r"downloading \S*/(\S+\.jar) ")
"""A line of Ivy's about a jar that it fetches, and the jar's name."""
_LINES_OF_AN_ERROR = 40


class JarsNotRetrievedError(NamesrvError):
    """Ivy could not fetch the jars of a configuration; `output` is the end of its output."""

    def __init__(self, configuration: str, output: str) -> None:
        super().__init__(
            f"the jars of {configuration} in {IVY_FILE} could not be fetched: is the network there? "
            f"(behind a proxy, JAVA_TOOL_OPTIONS names it to Java)\n{output}"
        )
        self.configuration = configuration
        self.output = output


def retrieved_jars(configuration: str) -> Path:
    """The folder with the jars of one configuration of `conf/ivy.xml`, fetched first where they are not those."""
    folder = JARS / configuration
    folder.mkdir(parents=True, exist_ok=True)
    if not is_retrieved(configuration):
        with (JARS / f".{configuration}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be fetching the same
            if not is_retrieved(configuration):
                _retrieve(configuration, folder)
                _stamp(configuration).write_text(_wanted())
    return folder


def is_retrieved(configuration: str) -> bool:
    """Return whether the jars of a configuration are there, fetched for this `conf/ivy.xml`."""
    stamp = _stamp(configuration)
    return stamp.exists() and stamp.read_text() == _wanted()


def _stamp(configuration: str) -> Path:
    return JARS / configuration / "ivy.xml.sha256"


def _wanted() -> str:
    return hashlib.sha256(IVY_FILE.read_bytes()).hexdigest()


def jars_of_sessions() -> list[Path]:
    """Return the jars of a session's class path: Spark's, and those of s3a:// if they were fetched."""
    folders = [retrieved_jars("spark"), *([retrieved_jars("s3")] if (JARS / "s3").exists() else [])]
    return sorted(jar for folder in folders for jar in folder.glob("*.jar"))


def _retrieve(configuration: str, folder: Path) -> None:
    pattern = f"{folder}/[artifact]-[revision](-[classifier]).[ext]"
    fetch: list[str | Path] = [
        "-ivy",
        IVY_FILE,
        "-confs",
        configuration,
        "-types",
        "jar",
        "bundle",
        "-retrieve",
        pattern,
        "-sync",
    ]
    command = [find_java(), "-jar", pyspark_jar("ivy"), *fetch]
    last_lines: deque[str] = deque(maxlen=_LINES_OF_AN_ERROR)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ivy:
        assert ivy.stdout is not None
        for line in ivy.stdout:
            last_lines.append(line)
            if download := _DOWNLOAD.match(line):
                click.echo(f"downloading {download[1]}", err=True)
    if ivy.returncode != 0:
        raise JarsNotRetrievedError(configuration, "".join(last_lines)[-2000:])


def pyspark_jar(name: str) -> Path:
    """Return a jar that pyspark brings, such as `ivy`."""
    return next((pyspark_folder() / "jars").glob(f"{name}-*.jar"))


def pyspark_folder() -> Path:
    """Return the folder of pyspark, which is not imported, for that takes a second."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JarsNotRetrievedError(
            "spark", "pyspark, which brings Spark and Ivy, is not installed: run `make install`"
        )
    return Path(spec.origin).parent


if __name__ == "__main__":
    try:
        for name in sys.argv[1:]:
            print(f"jars of {name}: {retrieved_jars(name)}")  # noqa: T201 -- make shows it
    except NamesrvError as error:
        sys.exit(str(error))
