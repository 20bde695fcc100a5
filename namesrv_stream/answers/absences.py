"""Planned absences: KV values of one namespace, by which operators say what is away, from when until when, and why.

A lease that ends while a planned absence of its broker holds ends by plan, and the broker is in planned absence until
it is back. A broker that is not back at the end of that is down, since the end of its lease. analysis/views.sql states
the same for the whole history, as `planned_absence` and `broker_stretch`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Literal, NamedTuple, cast, get_args
from urllib.parse import quote_plus

import msgspec

from namesrv_stream.answers.model import AnswerModel, fact
from namesrv_stream.reporting.texts import Time, clock_text, counted
from namesrv_stream.tables.moment import RegistryAt

LONGEST_MS = 6 * 24 * 3_600_000
"""Longest planned absence; a longer one is none. After 7 days a broker that is not back is no longer expected."""

NAMESPACE = "NAMESRV_STREAM_PLANNED"
"""KV namespace. A key is a subject and the time from which on it may be away: `zone/eu-a@1795683180000`."""

_TIME = re.compile("[0-9]{1,15}")
Kind = Literal["broker", "group", "zone", "cluster"]
"""What a planned absence, or a question what would be without it, is about."""


class Absence(AnswerModel):
    """A planned absence of a subject, from a time to before another. `scope` and `name` are those of the subject."""

    scope: Kind
    name: str
    since: Time
    until: Time
    requested_by: str | None
    reason: str | None
    subject: str

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def key(self) -> str:
        """The key of the KV value."""
        return f"{self.subject}@{int(self.since)}"

    @property
    def text(self) -> str:
        """The words about it: `until 14:00:00 UTC (kernel update, ann)`."""
        why = ", ".join(filter(None, (self.reason, self.requested_by)))
        return f"until {clock_text(self.until)}{f' ({why})' if why else ''}"


class _Stored(msgspec.Struct):
    until: int
    name: str = ""
    by: str | None = None
    reason: str | None = None


class Planned(NamedTuple):
    """A broker, as the key of a planned absence names it, its group, its zone and its cluster."""

    cluster: str
    zone: str | None
    name: str
    broker_id: int

    @property
    def subjects(self) -> tuple[str, ...]:
        """The subjects of all planned absences that cover it."""
        own = ("broker", self.cluster, self.name, str(self.broker_id))
        of_zone = subject_of("zone", self.zone or "")
        return subject_of(*own), subject_of("group", self.name), of_zone, subject_of("cluster", self.cluster)


def subject_of(scope: str, *names: str) -> str:
    """Return a subject as a key has it, each name encoded as in a URL: `broker/c1/broker-a/0`."""
    return "/".join((scope, *(quote_plus(name, safe="*").replace("~", "%7E") for name in names)))


def absence_value(name: str, until_ms: int, by: str | None, reason: str | None) -> str:
    """Return the KV value of a planned absence. `name`: what sentences call its subject."""
    return msgspec.json.encode(_Stored(until_ms, name, by, reason)).decode()


def _planned(values: Mapping[str, str], after_ms: int = -1) -> Iterator[Absence]:
    """Yield the planned absences among the KV values of the namespace that begin after a time."""
    for key, text in values.items():
        subject, _, begin = key.rpartition("@")
        scope = subject.partition("/")[0]
        if scope not in get_args(Kind) or not _TIME.fullmatch(begin) or int(begin) <= after_ms:
            continue
        with suppress(msgspec.DecodeError):
            value = msgspec.json.decode(text, type=_Stored)
            if int(begin) < value.until <= int(begin) + LONGEST_MS:
                times = Time(int(begin)), Time(value.until)
                yield Absence(cast(Kind, scope), value.name or subject, *times, value.by, value.reason, subject)


def ends_ms(values: Mapping[str, str], since_ms: int, until_ms: int) -> list[int]:
    """Return the ends after a time and up to another of the planned absences among the KV values of the namespace."""
    ends = (each.until for each in _planned(values, since_ms - LONGEST_MS))
    return [end_ms for end_ms in ends if since_ms < end_ms <= until_ms]


@fact
def absences(registry: RegistryAt) -> Mapping[str, list[Absence]]:
    """Return all planned absences by subject, past and future ones too. A value that is none is left out."""
    found: dict[str, list[Absence]] = {}
    for each in _planned(registry.kv.get(NAMESPACE, {})):
        found.setdefault(each.subject, []).append(each)
    return {subject: _joined(of_subject) for subject, of_subject in found.items()}


def _joined(of_subject: list[Absence]) -> list[Absence]:
    """Return planned absences of one subject, of which those that meet end together, with the last of them."""
    found: list[Absence] = []
    for each in sorted(of_subject, key=lambda each: each.since, reverse=True):
        later = [other.until for other in found if other.since <= each.until]
        found.append(msgspec.structs.replace(each, until=max((each.until, *later))))
    return found


def absence_at(registry: RegistryAt, broker: Planned, at_ms: int) -> Absence | None:
    """Return the planned absence that holds for a broker at a time, the one with the last end; None if none does."""
    known = absences(registry)
    if not known:
        return None
    held = (each for subject in broker.subjects for each in known.get(subject, ()) if each.since <= at_ms < each.until)
    return max(held, key=lambda each: each.until, default=None)


def holding(registry: RegistryAt) -> list[Absence]:
    """Return the planned absences that hold at the moment or are to come, the first end first."""
    every = (each for of in absences(registry).values() for each in of if each.until > registry.now_ms)
    return sorted(every, key=lambda each: (each.until, each.key))


def absence_text(count: int, held: Iterable[Absence]) -> str:
    """Return how many brokers are in planned absence, until when and why."""
    each = {absence.key: absence for absence in held}
    last = max(each.values(), key=lambda absence: absence.until)
    who = f"{counted(count, 'broker')} in planned absence"
    return f"{who} {last.text}" if len(each) == 1 else f"{who}, the last until {clock_text(last.until)}"
