"""Brings the jars that pip does not: `conf/ivy.xml` says which, the Ivy inside pyspark fetches them.

Each configuration of `conf/ivy.xml` has its folder `jars/<configuration>`: of the checkout, or of the user's cache if
the package was installed from a wheel, which has `conf` inside. Ivy keeps what it downloaded in the user's Ivy cache,
so that a second checkout copies instead of downloading.
"""

import hashlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from namesrv_stream.errors import NamesrvError
from namesrv_stream.local.java import find_java

CHECKOUT = Path(__file__).resolve().parents[2]


def _conf() -> Path:
    """Return the folder of the settings files: that of the checkout, else the copy that a wheel brings."""
    in_checkout = CHECKOUT / "conf"
    return in_checkout if (in_checkout / "ivy.xml").exists() else Path(__file__).resolve().parents[1] / "conf"


def _home() -> Path:
    """Return the folder for what is fetched and made: the checkout, else one of the user's cache."""
    if (CHECKOUT / "conf" / "ivy.xml").exists():
        return CHECKOUT
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "namesrv-stream"


CONF = _conf()
HOME = _home()
IVY_FILE = CONF / "ivy.xml"
JARS = HOME / "jars"


class JarsNotRetrievedError(NamesrvError):
    """Ivy could not bring the jars of a configuration; `said` is the end of what it said."""

    def __init__(self, configuration: str, said: str) -> None:
        super().__init__(
            f"the jars of {configuration} in {IVY_FILE} could not be fetched: is the network there? "
            f"(behind a proxy, JAVA_TOOL_OPTIONS tells Java of it)\n{said}"
        )
        self.configuration = configuration
        self.said = said


def retrieved_jars(configuration: str) -> Path:
    """The folder with the jars of one configuration of `conf/ivy.xml`, fetched first where they are not those."""
    folder = JARS / configuration
    folder.mkdir(parents=True, exist_ok=True)
    stamp = folder / "ivy.xml.sha256"
    wanted = hashlib.sha256(IVY_FILE.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        _retrieve(configuration, folder)
        stamp.write_text(wanted)
    return folder


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
    ivy = subprocess.run(
        [find_java(), "-jar", pyspark_jar("ivy"), "-warn", *fetch],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if ivy.returncode != 0:
        raise JarsNotRetrievedError(configuration, ivy.stdout[-2000:])


def pyspark_jar(name: str) -> Path:
    """A jar that pyspark brings, such as `ivy`; pyspark itself, which takes a second, is not imported."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JarsNotRetrievedError("spark", f"pyspark, which brings {name}, is not installed: run `make install`")
    return next((Path(spec.origin).parent / "jars").glob(f"{name}-*.jar"))


if __name__ == "__main__":
    try:
        for name in sys.argv[1:]:
            print(f"jars of {name}: {retrieved_jars(name)}")  # noqa: T201 -- make shows it
    except NamesrvError as error:
        sys.exit(str(error))
