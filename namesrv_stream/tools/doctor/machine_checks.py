"""Check what the job needs on its machine (Java, jars, pyspark, Python workers), the certificate and the users file."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import msgspec

from namesrv_stream.access.users import read_users
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.gateway.tls import Certificates
from namesrv_stream.job.failures import require_sound_spark
from namesrv_stream.tools.doctor import Finding, State
from namesrv_stream.tools.local.jars import JARS, OLDEST_JAVA, find_java, is_retrieved, java_version

_SOON_DAYS = 30
_DAY_S = 86_400
_WORKER_LIMIT_S = 60.0
_PACKAGES = ("pyspark", "pyarrow", "protobuf", "pandas")
_REPORT = (
    "import json, sys\n"
    "from importlib.metadata import version\n"
    f"print(json.dumps([list(sys.version_info[:2]), *map(version, {_PACKAGES!r})]))\n"
)


def check_java(_settings: NamesrvSettings) -> Iterator[Finding]:
    """Check that there is a Java that Spark can use."""
    java = find_java()
    yield Finding("Java", "ok", f"{java} is Java {java_version(java)}, and {OLDEST_JAVA} or newer is needed")


def check_jars(settings: NamesrvSettings) -> Iterator[Finding]:
    """Check that the jars of conf/ivy.xml were fetched."""
    needed = {"spark": "make install"}
    if "://" in settings.delta_root:
        needed["s3"] = "make install-s3, if Spark is to read these tables"
    for name, command in needed.items():
        if is_retrieved(name):
            yield Finding("jars", "ok", f"{JARS / name} has what conf/ivy.xml names")
        else:
            state: State = "failed" if name == "spark" else "warning"
            yield Finding("jars", state, f"{JARS / name} lacks the jars that conf/ivy.xml names", f"Run {command}.")


def check_spark(_settings: NamesrvSettings) -> Iterator[Finding]:
    """Check that the installed pyspark is no release that leaks sockets."""
    installed = version("pyspark")
    require_sound_spark(installed)
    yield Finding("pyspark", "ok", f"pyspark {installed} closes the sockets of its stateful step (SPARK-58932)")


def check_workers(_settings: NamesrvSettings) -> Iterator[Finding]:
    """Start the Python of Spark's workers and compare its packages with those of this process."""
    python = os.environ.get("PYSPARK_PYTHON", sys.executable)
    wanted = [list(sys.version_info[:2]), *map(version, _PACKAGES)]
    next_step = "Point PYSPARK_PYTHON at a Python with the packages of requirements.lock, on each executor too."
    try:
        done = subprocess.run(
            [python, "-c", _REPORT], capture_output=True, text=True, timeout=_WORKER_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Finding("Python workers", "failed", f"{python} does not start: {error}", next_step)
        return
    if done.returncode:
        problem = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        yield Finding("Python workers", "failed", f"{python}: {problem[0]}", next_step)
    elif msgspec.json.decode(done.stdout) != wanted:
        found = f"{python} has {done.stdout.strip()}, the driver {msgspec.json.encode(wanted).decode()}"
        yield Finding("Python workers", "failed", found, next_step)
    else:
        yield Finding("Python workers", "ok", f"{python} has the packages of the driver")


def check_certificate(settings: NamesrvSettings) -> Iterator[Finding]:
    """Read the files of tls.server.*, and do a TLS handshake with the certificate in memory."""
    certificates = Certificates(settings)
    if not certificates.is_set:
        yield Finding("certificate", "not checked", "tls.server.certPath is not set: the gateway speaks plain text")
        return
    file = settings.tls_cert_path
    try:
        ends_s = certificates.end_of_validity_s()
    except ssl.SSLError as error:
        problem = getattr(error, "verify_message", "") or str(error)
        yield Finding("certificate", "failed", f"{file}: {problem}", "Put a certificate there that is valid now.")
        return
    days = int((ends_s - time.time()) // _DAY_S)
    if days < _SOON_DAYS:
        yield Finding("certificate", "warning", f"{file} is valid for {days} days", "Renew it; no restart is needed.")
    else:
        yield Finding("certificate", "ok", f"{file} is valid for {days} days")


def check_users(settings: NamesrvSettings) -> Iterator[Finding]:
    """Read the users file, as the gateway does at its start."""
    if not settings.auth_users_path:
        open_to_all = "auth.usersPath is not set: whoever reaches the gateway may write"
        yield Finding("users file", "not checked", open_to_all, "docs/security.md describes how to close a registry.")
        return
    read_users(Path(settings.auth_users_path))
    yield Finding("users file", "ok", f"{settings.auth_users_path} can be used; auth.mode is {settings.auth_mode}")
