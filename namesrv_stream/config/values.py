"""Parse the text of a properties file into a value, and print a value as RocketMQ would.

Types are those of RocketMQ's own settings in Java: a boolean is `true` or `false`, an int has 32 bits.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

_DURATION_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DURATION = re.compile(r"(\d{1,9})\s*(ms|s|m|h|d)")


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("accepted are true and false")
    return text.strip().lower() == "true"


def _whole_number(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text.strip()):
        raise ValueError("a whole number is accepted")
    return int(text)


def parsed_duration(text: str) -> timedelta:
    """Parse `30d`, `720h`, `90m`, `45s` or `500ms`. Raises ValueError with the accepted forms."""
    if not (match := _DURATION.fullmatch(text.strip().lower())):
        raise ValueError("a number with a unit is accepted: ms, s, m, h or d, as in 30d or 720h")
    return timedelta(**{_DURATION_UNITS[match[2]]: int(match[1])})


def _parsed_by(parse: Callable[[str], object]) -> BeforeValidator:
    """Return a validator that parses a text, and leaves a value of another type as it is."""
    return BeforeValidator(lambda value: parse(value) if isinstance(value, str) else value)


def _servers(value: str) -> str:
    servers = [each.strip() for each in value.split(",")]
    if not all(re.fullmatch(r"(\[[^\s\]]+\]|[^\s:\[\]]+):\d{1,5}", each) for each in servers):
        raise ValueError("host:port is accepted, or several of them separated by commas")
    return ",".join(servers)


def _networks(value: str) -> str:
    networks = [each.strip() for each in value.split(",") if each.strip()]
    for each in networks:
        ipaddress.ip_network(each, strict=False)  # its ValueError names the text
    return ",".join(networks)


def _expanded(value: str) -> str:
    return str(Path(value).expanduser()) if value.startswith("~") else value


def _readable_by_delta(path: str) -> str:
    """Raise an error for a folder whose name delta-rs takes for another one, or fails on."""
    odd = re.search(r"[%\[\]\\\x00-\x1f\x7f]", str(Path(path).absolute())) if "://" not in path else None
    if odd is not None:
        raise ValueError(
            f"has {odd[0]!r} in its whole path, with which delta-rs does not find a table: take another folder"
        )
    return path


Boolean = Annotated[bool, _parsed_by(_boolean)]
Int = Annotated[int, _parsed_by(_whole_number), Field(ge=-(2**31), le=2**31 - 1)]
Count = Annotated[int, _parsed_by(_whole_number), Field(ge=1, le=2**31 - 1)]
Millis = Annotated[int, _parsed_by(_whole_number), Field(ge=0, le=2**31 - 1)]
Ratio = Annotated[float, Field(ge=0, le=1)]
Port = Annotated[int, _parsed_by(_whole_number), Field(ge=0, le=65_535)]
Duration = Annotated[timedelta, _parsed_by(parsed_duration), Field(gt=timedelta())]
Location = Annotated[str, AfterValidator(_expanded)]
TablesLocation = Annotated[Location, AfterValidator(_readable_by_delta)]
Servers = Annotated[str, AfterValidator(_servers)]
Networks = Annotated[str, AfterValidator(_networks)]


def java_text(value: object) -> str:
    """Return the value as a properties file has it: `true`, `30d`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, timedelta):
        return _duration_text(value)
    return str(value)


def _duration_text(value: timedelta) -> str:
    millis = value // timedelta(milliseconds=1)
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if millis % size == 0:
            return f"{millis // size}{unit}"
    return f"{millis}ms"
