"""The users file: TOML, a [[user]] for each user, readable by the gateway's user and not by everybody.

[[user]]
name = "broker-a"
role = "broker"                     # reader, broker or admin
accessKey = "broker-a"              # known by these keys
secretKey = "..."                   # or secretKeyFile, a file that has it alone, beside this one or by its whole path
certificates = ["DNS:broker-a"]     # or by a client certificate
networks = ["10.0.0.1/32"]          # or, last, by its address
clusters = ["DefaultCluster"]       # what a broker may speak for
names = ["broker-a"]
addresses = ["10.0.0.1:10911"]
"""

from __future__ import annotations

import logging
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated

import msgspec

from namesrv_stream.access.users import Bounds, Credentials, Network, Role, User, Users
from namesrv_stream.errors import NamesrvError

log = logging.getLogger(__name__)

MIN_SECRET_CHARS = 8
_CLOSED_TO = stat.S_IWGRP | stat.S_IRWXO
"""The mode bits that a file of secrets must not have. The group may read it: Kubernetes mounts secrets that way."""

_Name = Annotated[str, msgspec.Meta(pattern=r"^[^\s\x00-\x1f\x7f]{1,128}(?![\s\S])")]
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class UsersFileError(NamesrvError):
    """The file of auth.usersPath cannot be used."""

    exit_status = 2

    def __init__(self, file: Path, problem: str) -> None:
        super().__init__(
            f"users file {file}: {problem}. docs/security.md has an example; auth.usersPath names the file."
        )
        self.file = file
        self.problem = problem


class _Entry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    name: _Name
    role: Role
    access_key: str = ""
    secret_key: str = ""
    secret_key_file: str = ""
    certificates: list[_Text] = []
    networks: list[_Text] = []
    clusters: list[_Text] = []
    names: list[_Text] = []
    addresses: list[_Text] = []


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    user: list[_Entry] = []


class UsersFile:
    """The users of a file, read again when the file changes.

    If the changed file cannot be used, the users before stay in force.
    """

    def __init__(self, file: Path) -> None:
        """Read the file. Raises UsersFileError."""
        self._file = file
        self._seen = _stamp(file)
        self.users = read_users(file)

    def reload(self) -> None:
        """Read the file again if it has changed since the last call. Log it if the file cannot be used."""
        seen = _stamp(self._file)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self.users = read_users(self._file)
            log.info("users read again from %s", self._file)
        except UsersFileError as error:
            log.error("%s The users before stay in force.", error)


def read_users(file: Path) -> Users:
    """Return the users in a file. Raises UsersFileError."""
    try:
        with file.open("rb") as opened:
            _check_mode(file, os.fstat(opened.fileno()).st_mode)
            entries = msgspec.toml.decode(opened.read(), type=_File).user
        known = [_user(_with_secret(file, entry)) for entry in entries]
        _check_unique(entries, known)
    except OSError as error:
        raise UsersFileError(file, (error.strerror or str(error)).lower()) from error
    except (msgspec.MsgspecError, ValueError) as error:  # a TOML error and UnicodeDecodeError are ValueErrors
        raise UsersFileError(file, str(error)) from error
    return Users(known)


def _stamp(file: Path) -> tuple[int, ...] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode


def _check_mode(file: Path, mode: int) -> None:
    if os.name == "posix" and mode & _CLOSED_TO:
        shown = stat.filemode(mode)
        raise UsersFileError(file, f"it has secrets and its mode is {shown}: run chmod 600 on it")


def _with_secret(file: Path, entry: _Entry) -> _Entry:
    """Return the entry with the secret of its file, if it names one. Raises ValueError, UsersFileError and OSError."""
    if not entry.secret_key_file:
        return entry
    if entry.secret_key:
        raise ValueError(f"user {entry.name}: secretKey and secretKeyFile exclude each other, give one of them")
    path = file.parent / entry.secret_key_file
    with path.open("rb") as opened:
        _check_mode(path, os.fstat(opened.fileno()).st_mode)
        return msgspec.structs.replace(entry, secret_key=opened.read().decode().strip())


def _user(entry: _Entry) -> tuple[User, Credentials]:
    """Return an entry's user and credentials. Raises ValueError, which names the user and what to correct."""
    for problem in _problems(entry):
        raise ValueError(f"user {entry.name}: {problem}")
    bounds = Bounds(tuple(entry.clusters), tuple(entry.names), tuple(entry.addresses))
    credentials = Credentials(
        entry.access_key, entry.secret_key.encode(), tuple(entry.certificates), tuple(_networks(entry))
    )
    return User(entry.name, entry.role, bounds), credentials


def _problems(entry: _Entry) -> Iterator[str]:
    if bool(entry.access_key) != bool(entry.secret_key):
        yield "accessKey and secretKey belong together, give both"
    if entry.secret_key and len(entry.secret_key) < MIN_SECRET_CHARS:
        yield f"its secretKey is shorter than {MIN_SECRET_CHARS} characters"
    if not (entry.access_key or entry.certificates or entry.networks):
        yield "the user cannot be recognised: give accessKey and secretKey, or certificates, or networks"
    if entry.networks and entry.role is Role.ADMIN:
        yield "an address does not prove an admin, give it accessKey and secretKey instead of networks"
    bounds = (entry.clusters, entry.names, entry.addresses)
    if entry.role is Role.BROKER and not all(bounds):
        yield 'a broker needs clusters, names and addresses that it may speak for, ["*"] for all'
    if entry.role is not Role.BROKER and any(bounds):
        yield "clusters, names and addresses are for the role broker alone"


def _networks(entry: _Entry) -> Iterator[Network]:
    for text in entry.networks:
        try:
            yield ip_network(text)
        except ValueError as error:
            raise ValueError(f"user {entry.name}: networks: {error}") from error


def _check_unique(entries: Iterable[_Entry], known: Iterable[tuple[User, Credentials]]) -> None:
    """Raise ValueError if a name, key, certificate or range appears twice."""
    credentials = [each for _, each in known]
    for what, found in (
        ("name", [entry.name for entry in entries]),
        ("accessKey", [each.access_key for each in credentials if each.access_key]),
        ("certificate", [name for each in credentials for name in each.certificates]),
        ("network", [str(network) for each in credentials for network in each.networks]),
    ):
        if twice := [each for each, times in Counter(found).items() if times > 1]:
            raise ValueError(f"the {what} {twice[0]} is there twice")
