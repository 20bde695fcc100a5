"""Secrets, hidden in all that this package prints: errors, log lines, and addresses among the answers."""

from __future__ import annotations

import re
from collections.abc import Iterable

MASK = "******"

_USER_IN_ADDRESS = re.compile(r"""://[^\s"'<>]*@""")
_USER_OF_RUST = re.compile(r'(username: |password: Some\()"(?:[^"\\]|\\.)+"')
"""User and password as delta-rs prints an address that it has taken apart."""

_LEAST_CHARS = 6
"""A shorter secret would be found in the middle of words."""

_noted: set[str] = set()


def note_secrets(values: Iterable[str]) -> None:
    """Hide these values wherever they appear from now on."""
    _noted.update(value for value in values if len(value) >= _LEAST_CHARS)


def masked(text: str) -> str:
    """Return the text as it may be printed: without user and password of an address, and without noted secrets."""
    for secret in sorted(_noted, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return _USER_OF_RUST.sub(rf'\1"{MASK}"', _USER_IN_ADDRESS.sub(f"://{MASK}@", text))
