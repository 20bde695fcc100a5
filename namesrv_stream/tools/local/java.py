"""Find the Java that Spark and Kafka run on."""

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from namesrv_stream.errors import NamesrvError

OLDEST_JAVA = 17


class JavaMissingError(NamesrvError):
    """Neither JAVA_HOME nor PATH has a Java that starts."""

    def __init__(self, looked_at: str) -> None:
        super().__init__(
            f"no Java found ({looked_at}): install Java {OLDEST_JAVA} or newer "
            f"(for example Debian's openjdk-{OLDEST_JAVA}-jre-headless) or point JAVA_HOME at one"
        )
        self.looked_at = looked_at


class JavaTooOldError(NamesrvError):
    """The Java that was found is too old for Spark 4 and Kafka 4."""

    def __init__(self, java: Path, version: str) -> None:
        super().__init__(
            f"{java} is Java {version}, and Spark needs {OLDEST_JAVA} or newer: "
            f"install Java {OLDEST_JAVA} and point JAVA_HOME at it"
        )
        self.java = java
        self.version = version


@functools.cache
def find_java() -> Path:
    """Return the `java` of JAVA_HOME, or else of PATH, as Spark does.

    Raises JavaMissingError or JavaTooOldError.
    """
    java = _java_of_home(os.environ["JAVA_HOME"]) if os.environ.get("JAVA_HOME") else _java_of_path()
    version = java_version(java)
    if major_version(version) < OLDEST_JAVA:
        raise JavaTooOldError(java, version)
    return java


def major_version(version: str) -> int:
    """Return 17 for "17.0.15", 21 for "21-ea", and 8 for "1.8.0_392", the numbering of Java before 9."""
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _java_of_home(java_home: str) -> Path:
    java = Path(java_home) / "bin" / "java"
    if not os.access(java, os.X_OK):
        raise JavaMissingError(f"JAVA_HOME is {java_home}, which has no bin/java")
    return java


def _java_of_path() -> Path:
    found = shutil.which("java")
    if found is None:
        raise JavaMissingError("JAVA_HOME is not set and no java is on PATH")
    return Path(found)


def java_version(java: Path) -> str:
    """Return the version that `java -version` prints. Raises JavaMissingError if it prints none."""
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "([^"]+)"', output)
    if version is None:  # such as macOS's /usr/bin/java, which only prints where to download one
        raise JavaMissingError(f"{java} does not start")
    return version[1]


if __name__ == "__main__":
    try:
        find_java()
    except NamesrvError as error:
        sys.exit(str(error))
