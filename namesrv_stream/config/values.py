"""Parse the text of a properties file into a value, and print a value as RocketMQ would.

Types are those of RocketMQ's own settings in Java: a boolean is `true` or `false`, an int has 32 bits.
"""

from __future__ import annotations

import ipaddress
import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

_DURATION_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DURATION = re.compile(r"(\d{1,9})\s*(ms|s|m|h|d)")


def _boolean(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = value.strip().lower()
    if text not in ("true", "false"):
        raise ValueError("accepted are true and false")
    return text == "true"


def _whole_number(value: object) -> object:
    if not isinstance(value, str):
        return value
    if not re.fullmatch(r"[+-]?[0-9]+", value.strip()):
        raise ValueError("a whole number is accepted")
    return int(value)


def _number_or_none(value: object) -> object:
    return None if isinstance(value, str) and value.strip().lower() in ("", "none") else _whole_number(value)


def parsed_duration(value: object) -> object:
    """Parse `30d`, `720h`, `90m`, `45s` or `500ms` into a timedelta.

    A value that is no text is returned as it is. Raises ValueError with the accepted forms.
    """
    if not isinstance(value, str):
        return value
    if not (match := _DURATION.fullmatch(value.strip().lower())):
        raise ValueError("a number with a unit is accepted: ms, s, m, h or d, as in 30d or 720h")
    return timedelta(**{_DURATION_UNITS[match[2]]: int(match[1])})


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


Boolean = Annotated[bool, BeforeValidator(_boolean)]
Int = Annotated[int, BeforeValidator(_whole_number), Field(ge=-(2**31), le=2**31 - 1)]
Count = Annotated[int, BeforeValidator(_whole_number), Field(ge=1, le=2**31 - 1)]
CountOrNone = Annotated[Annotated[int, Field(ge=1)] | None, BeforeValidator(_number_or_none)]
Millis = Annotated[int, BeforeValidator(_whole_number), Field(ge=0, le=2**31 - 1)]
Ratio = Annotated[float, Field(ge=0, le=1)]
Port = Annotated[int, BeforeValidator(_whole_number), Field(ge=0, le=65_535)]
Duration = Annotated[timedelta, BeforeValidator(parsed_duration), Field(gt=timedelta())]
Location = Annotated[str, AfterValidator(_expanded)]
Servers = Annotated[str, AfterValidator(_servers)]
Networks = Annotated[str, AfterValidator(_networks)]


def java_text(value: object) -> str:
    """Return the value as a properties file has it: `true`, `30d`, `none`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, timedelta):
        return _duration_text(value)
    return "none" if value is None else str(value)


def _duration_text(value: timedelta) -> str:
    millis = value // timedelta(milliseconds=1)
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if millis % size == 0:
            return f"{millis // size}{unit}"
    return f"{millis}ms"
