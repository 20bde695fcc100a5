"""Numbers, times and permissions as people read them, the same on the command line, in sentences and on the page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta, tzinfo
from typing import overload
from unicodedata import normalize

_DIGITS = re.compile(r"(\d+)")
_PERMS = ((4, "R"), (2, "W"), (1, "X"))


def perm_text(perm: int) -> str:
    """Return a perm as RocketMQ's admin tool writes it: `RW-` for 6, with `P` in front for the priority bit."""
    letters = "".join(letter if perm & bit else "-" for bit, letter in _PERMS)
    return f"P{letters}" if perm & 8 else letters


@overload
def iso_text(epoch_ms: int) -> str: ...
@overload
def iso_text(epoch_ms: int | None) -> str | None: ...
def iso_text(epoch_ms: int | None) -> str | None:
    """Return the time in UTC with milliseconds, for JSON."""
    if epoch_ms is None:
        return None
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Time(int):
    """A time in epoch milliseconds. As text, and in JSON, it is ISO 8601 in UTC."""

    __slots__ = ()

    def __str__(self) -> str:
        return iso_text(int(self))


SHOWN_ZONE: ContextVar[tzinfo] = ContextVar("zone", default=UTC)
"""Zone of the times that people read, and of those that they write without one: the option --tz, else UTC."""


def moment_text(epoch_ms: int) -> str:
    """Return the time in the shown zone to the second, with the day and the name of the zone."""
    return datetime.fromtimestamp(epoch_ms / 1000, SHOWN_ZONE.get()).strftime("%Y-%m-%d %H:%M:%S %Z")


def today() -> str:
    """Return the day in the shown zone, with the zone: a text with times that is kept holds for this day alone."""
    zone = SHOWN_ZONE.get()
    return f"{datetime.now(zone):%Y-%m-%d} {zone}"


def clock_text(epoch_ms: int) -> str:
    """Return the time as a sentence has it: `moment_text`, without the day if it is today's."""
    zone = SHOWN_ZONE.get()
    at = datetime.fromtimestamp(epoch_ms / 1000, zone)
    return f"{at:%H:%M:%S %Z}" if at.date() == datetime.now(zone).date() else moment_text(epoch_ms)


def is_of_two_offsets(moment: datetime) -> bool:
    """Return whether the clocks change on the local day of a time, so that an hour of it comes twice or not at all."""
    begin = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return begin.utcoffset() != (begin + timedelta(days=1)).utcoffset()


def folded(text: str) -> str:
    """Return the text as searches compare it: without a difference of case, and `é` the same however it is composed."""
    return text.lower() if text.isascii() else normalize("NFC", normalize("NFC", text).casefold())


def natural_key(text: str) -> list[tuple[bool, int, str]]:
    """Return the key by which `a-2` comes before `a-10`."""
    return [(not part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in _DIGITS.split(text)]


def duration_text(millis: int) -> str:
    """Return the duration in its two greatest units: `3m 20s`, `2d 4h`, `12s`; `<1s` if it is below a second."""
    parts: list[str] = []
    rest = max(0, millis) // 1000
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, seconds)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "<1s"


def age_text(millis: int) -> str:
    """Return how long ago something was: `12s ago`, `just now` if it is below a second."""
    return f"{duration_text(millis)} ago" if millis >= 1000 else "just now"


def role_text(broker_id: int | str | None) -> str:
    """Return the role of a broker in its group: `master` or `slave 1`."""
    return "master" if int(broker_id or 0) == 0 else f"slave {broker_id}"


def broker_text(broker_name: str | None, broker_id: int | str | None) -> str:
    """Return a broker by its group and its role: `broker-7 slave 1`."""
    return f"{broker_name} {role_text(broker_id)}"


def zone_text(zone: str) -> str:
    """Return the zone as a sentence has it: `zone eu-1`, or its bare name if that begins with "zone"."""
    return zone if zone.lower().startswith("zone") else f"zone {zone}"


def percent_text(count: int, total: int) -> str:
    """Return a share: `33%`. It is 100% only of all."""
    percent = round(100 * count / total)
    if percent == 100 and count < total:
        return "over 99%"
    return f"{percent}%" if percent else "under 1%"


def port_owner_command(port: int) -> str:
    """Return the command that names the process with a port."""
    return f"`ss -ltnp 'sport = :{port}'`"


def counted(count: int, noun: str) -> str:
    """Return the number with its noun: `no topics`, `1 topic`, `20,000 topics`, `2 addresses`."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}" if count else f"no {plural}"


def all_of(count: int, noun: str) -> str:
    """Return what is said of all of two or more: `both brokers`, `all 3 brokers`."""
    return f"both {noun}s" if count == 2 else f"all {counted(count, noun)}"


def listed(names: Sequence[str]) -> str:
    """Return one or more names as a list in a sentence: `A`, `A and B`, `A, B and C`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def named(names: Sequence[str], most: int = 5) -> str:
    """Return the first names of a list, and how many there are besides: `A, B`, `A, B, C, D, E and 7 more`."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def shown_of(shown: int, total: int, noun: str, which: str = "newest") -> str:
    """Return how many of a list are shown, and how many there are if that is more: `newest 50 of 462 events`."""
    return counted(shown, noun) if shown >= total else f"{which} {shown:,} of {counted(total, noun)}"
