"""Users, the file that names them, and the rules that decide which user has sent a request.

The signature of a request counts first, then the connection's client certificate. The users file is TOML, a [[user]]
for each user, readable by the gateway's user and not by everybody; docs/security.md has an example.
"""

from __future__ import annotations

import hmac
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import msgspec

from namesrv_stream.access.reloaded_files import ReloadedFiles
from namesrv_stream.errors import SettingError
from namesrv_stream.wire.remoting_command import RemotingCommand, access_key_of, is_signed_with

MIN_SECRET_CHARS = 8
_CLOSED_TO = stat.S_IWGRP | stat.S_IRWXO
"""The mode bits that a file of secrets must not have. The group may read it, because Kubernetes mounts secrets so."""

_RETIRED = {
    "networks": "An address identifies no user. Give the user keys or a certificate, and restrict hosts by a firewall.",
    "secretKeyFile": "Put the secret into the users file, as secretKey.",
}
"""Keys of earlier releases -> what to do instead."""

_FORM = "The file is TOML, with a [[user]] for each: name, role, and accessKey and secretKey, or certificates."

USER_NAME = r"^[^\s\x00-\x1f\x7f]{1,128}(?![\s\S])"
_Name = Annotated[str, msgspec.Meta(pattern=USER_NAME)]
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class Role(StrEnum):
    """The role of a user, which decides what the user may send. No role includes another."""

    READER = "reader"
    BROKER = "broker"
    ADMIN = "admin"


class User(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A person or program that the history can name, as a [[user]] of the file has it.

    A user is identified by a pair of keys, by names in client certificates, or by a proxy before the console that has
    logged the user in. A user with the broker role may send requests about `clusters`, `names` and `addresses`:
    patterns, in which `*` stands for any text.
    """

    name: _Name
    role: Role
    access_key: str = ""
    secret_key: str = ""
    certificates: list[_Text] = []
    clusters: list[_Text] = []
    names: list[_Text] = []
    addresses: list[_Text] = []

    def __repr__(self) -> str:
        """Return the name and role, without the secret."""
        return f"User({self.name!r}, {self.role.value!r})"


@dataclass(frozen=True, slots=True)
class Sender:
    """The user who sent a request; or None, and the reason why the user is unknown."""

    user: User | None
    reason: str = ""


class Users:
    """All users. No two of them share a key or a certificate name."""

    def __init__(self, known: Iterable[User] = ()) -> None:
        self._by_name: dict[str, User] = {}
        self._by_access_key: dict[str, User] = {}
        self._by_certificate: dict[str, User] = {}
        for user in known:
            self._by_name[user.name] = user
            if user.access_key:
                self._by_access_key[user.access_key] = user
            self._by_certificate |= dict.fromkeys(user.certificates, user)

    def sender(self, command: RemotingCommand, certificate_names: frozenset[str] = frozenset()) -> Sender:
        """Return the sender of a request. A signed request comes from its signer, whatever its connection proves.

        `certificate_names`: the subject alternative names of the peer's verified certificate, each as `DNS:name`.
        """
        access_key = access_key_of(command)
        if access_key is not None:
            signer = self._by_access_key.get(access_key)
            if signer is None or not is_signed_with(command, signer.secret_key.encode()):
                return Sender(None, "its AccessKey is unknown, or its Signature is wrong")  # one reason reveals no key
            return Sender(signer)
        found = sorted(certificate_names & self._by_certificate.keys())
        return Sender(self._by_certificate[found[0]]) if found else Sender(None, "it is not signed")

    def holder_of(self, access_key: str, secret_key: bytes) -> Sender:
        """Return the user who has these keys. The reason is the same for an unknown key and a wrong secret."""
        user = self._by_access_key.get(access_key)
        if user is None or not hmac.compare_digest(user.secret_key.encode(), secret_key):
            return Sender(None, "its accessKey is unknown, or its secretKey is wrong")
        return Sender(user)

    def named(self, name: str) -> Sender:
        """Return the user of a name, for whom somebody else has checked who it is."""
        user = self._by_name.get(name)
        return Sender(user, "" if user else f"the users file has no user {name}")


def is_within(text: str, patterns: Iterable[str]) -> bool:
    """Return whether one of the patterns matches the whole text."""
    return any(_matcher(pattern).fullmatch(text) for pattern in patterns)


@lru_cache(maxsize=10_000)
def _matcher(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


def users_file(file: Path) -> ReloadedFiles[Users]:
    """Return the users of a file. Raises SettingError if the file cannot be used."""
    return ReloadedFiles("users file", [file], lambda: read_users(file))


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    user: list[User] = []


def read_users(file: Path) -> Users:
    """Return the users in a file. Raises SettingError if the file cannot be used."""
    try:
        known = msgspec.toml.decode(_text(file), type=_File).user
        for user in known:
            for problem in _problems(user):
                raise ValueError(f"user {user.name}: {problem}")
        _check_unique(known)
        return Users(known)
    except (OSError, msgspec.MsgspecError, ValueError) as error:  # a TOML error and UnicodeDecodeError are ValueErrors
        problem = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
        retired = (instead for key, instead in _RETIRED.items() if f"unknown field `{key}`" in problem)
        advice = next(retired, _FORM)
        raise SettingError("auth.usersPath", f"users file {file}: {problem}", advice) from error


def _text(file: Path) -> str:
    """Return the text of a file with secrets. Raises ValueError if others may read it."""
    with file.open(encoding="utf-8") as opened:
        mode = os.fstat(opened.fileno()).st_mode
        if os.name == "posix" and mode & _CLOSED_TO:
            raise ValueError(f"it has secrets, and others may read it ({stat.filemode(mode)}). Run `chmod 600` on it")
        return opened.read()


def _problems(user: User) -> Iterator[str]:
    if bool(user.access_key) != bool(user.secret_key):
        yield "accessKey and secretKey are needed together"
    if user.secret_key and len(user.secret_key) < MIN_SECRET_CHARS:
        yield f"its secretKey is shorter than {MIN_SECRET_CHARS} characters"
    if user.role is Role.BROKER and not (user.access_key or user.certificates):
        yield "a broker needs accessKey and secretKey, or certificates"
    bounds = (user.clusters, user.names, user.addresses)
    if user.role is Role.BROKER and not all(bounds):
        yield 'a broker needs clusters, names and addresses that it may act for; ["*"] allows all'
    if user.role is not Role.BROKER and any(bounds):
        yield "only the role broker has clusters, names and addresses"


def _check_unique(known: Sequence[User]) -> None:
    """Raise ValueError if a name, key or certificate appears twice."""
    for what, found in (
        ("name", [user.name for user in known]),
        ("accessKey", [user.access_key for user in known if user.access_key]),
        ("certificate", [name for user in known for name in user.certificates]),
    ):
        if twice := [each for each, times in Counter(found).items() if times > 1]:
            raise ValueError(f"more than one user has the {what} {twice[0]}")
