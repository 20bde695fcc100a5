"""What answers have in common: names as JSON has them, pages, errors, facts that a moment keeps."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from typing import Any, Self, TypeVar

import msgspec
from msgspec import Struct

from namesrv_stream.answers.events import Span
from namesrv_stream.errors import NamesrvError, did_you_mean
from namesrv_stream.reporting.logs import printable
from namesrv_stream.reporting.texts import Time, folded, named
from namesrv_stream.rules.record_types import is_system_topic
from namesrv_stream.tables.holes import UnknownPast
from namesrv_stream.tables.moment import RegistryAt
from namesrv_stream.wire.json_text import encode_json

T = TypeVar("T")

_MAX_COMPARED = 2_000
"""Most names that are compared to find the nearest. Of more names only those with the same beginning or with
the whole name in them are compared, because all would take seconds."""

_NAMED, _NEAREST, _SHOWN_CHARS = 5, 3, 200


def camel(name: str) -> str:
    """Return the name of a field or column as JSON has it; `from_`, a word of Python's, is `from`."""
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(word.capitalize() for word in rest)


_TIMES = frozenset(
    (
        "event_time",
        "published_at",
        "last_tick",
        "log_accepted_at",
        "repaired_at",
        "last_heard_at",
        "lease_began_at",
        "suspect_since",
    )
) | {"last_update_timestamp"}
"""Columns that hold a time, in epoch milliseconds in a row."""


def shown(column: str, value: Any) -> Any:
    """Return the value of a column for an answer: a time as such, any other value as it is."""
    return Time(value) if column in _TIMES and isinstance(value, int) else value


def encode_answer(value: object) -> bytes:
    """Return the JSON of an answer. Here its times become text."""
    return encode_json(value, str)


class AnswerModel(Struct, rename=camel):
    """An answer or a part of it. In JSON its names are camelCase, times ISO 8601 in UTC, durations end with Millis."""

    @classmethod
    def of(cls, row: Any, **more: Any) -> Self:
        """Return an answer from a row's columns that have the names of its fields, and `more`, which wins."""
        given = {name: shown(name, value) for name, value in row._asdict().items()} | more
        return cls(**{name: given[name] for name in cls.__struct_fields__ if name in given})


_LISTED_BY = {"topic": "topicList", "broker": "brokerList"}
"""Kind of a name -> the command that lists all names."""

_NONE_YET = {
    "broker": "No broker has registered yet.",
    "topic": "No broker has registered a topic yet.",
    "cause": "No broker is down, suspect or late.",
    "broker or topic": "No broker has registered yet.",
}


class NotFoundError(NamesrvError):
    """Neither the snapshot nor, for brokers, the history has the name that was asked for."""

    def __init__(self, kind: str, name: str, known: Iterable[str], epoch: int, is_last: Callable[[str], bool]) -> None:
        names = sorted(set(known))
        is_long = len(names) > _MAX_COMPARED
        begin, whole = folded(name[:2]), folded(name)
        near = (each for each in names if folded(each[:2]) == begin or whole in folded(each))
        compared = list(near) if is_long else names
        nearest = did_you_mean(name, compared[:_MAX_COMPARED], most=_NEAREST).rstrip()
        shown = printable(name[:_SHOWN_CHARS]) + ("..." if len(name) > _SHOWN_CHARS else "")
        if not nearest and len(names) > _NAMED and kind in _LISTED_BY:
            nearest = f"`namesrv-stream {_LISTED_BY[kind]}` lists all {len(names):,}."
        elif not nearest and names:
            nearest = f"Known: {named(sorted(names, key=is_last), _NAMED)}."
        super().__init__(f"no {kind} '{shown}' in snapshot {epoch}. {nearest or _NONE_YET.get(kind, 'None exists.')}")


class BadQuestionError(NamesrvError):
    """A parameter or a command that cannot be used. The message names it and the accepted values."""

    exit_status = 2


class Moment(AnswerModel):
    """The moment of an answer. `eventTime` is null before the first record."""

    epoch: int
    event_time: Time | None
    published_at: Time


class Unknown(AnswerModel):
    """A stretch of time of which the history has lost rows, which an answer lacks; `text` says why.

    `since`: null if it is not known when it begins. `fromEpoch` and `toEpoch`: the first and the last epoch of it.
    """

    since: Time | None
    until: Time
    from_epoch: int
    to_epoch: int
    tables: list[str]
    text: str

    @classmethod
    def of_past(cls, unknown: UnknownPast) -> Self:
        """Return the stretch for an answer."""
        tables = sorted({each.table_name for each in unknown.holes})
        since = None if unknown.from_millis is None else Time(unknown.from_millis)
        return cls(since, Time(unknown.until_millis), unknown.from_epoch, unknown.to_epoch, tables, unknown.sentence)


class Page(AnswerModel):
    """A page of a list of `total` items; `next` names the item after which the next page begins, null at the end."""

    snapshot: Moment
    total: int
    next: str | None


def unknown_in(registry: RegistryAt, span: Span) -> Unknown | None:
    """Return the stretch of the history with lost rows if a span meets it."""
    unknown = registry.unknown
    return Unknown.of_past(unknown) if unknown is not None and span.meets(unknown) else None


def not_found(registry: RegistryAt, kind: str, name: str, known: Iterable[str]) -> NotFoundError:
    """Return the error for an unknown name. It lists the names most like it, or else the existing names."""
    is_last = partial(is_system_topic, brokers=(), clusters=registry.clusters)
    return NotFoundError(kind, name, known, registry.snapshot.epoch, is_last)


def fact(compute: Callable[[RegistryAt], T]) -> Callable[[RegistryAt], T]:
    """Return a function whose result a moment keeps, for whatever else is asked about it."""

    @wraps(compute)
    def kept(registry: RegistryAt) -> T:
        return registry.once(f"{compute.__module__}.{compute.__qualname__}", lambda: compute(registry))

    return kept


MAX_LISTED = 1_000
"""Most items in one answer over HTTP."""


def paged(  # noqa: PLR0913 -- an order, and what a reader chose
    items: Iterable[T],
    order: Callable[[T], Any],
    name: Callable[[T], Any],
    limit: int | None,
    after: str = "",
    *,
    reverse: bool = False,
) -> tuple[list[T], str | None]:
    """Return the items behind the place `after` in an order, then by name, and the last one's place if more follow.

    The item at that place may have left the list meanwhile.
    """
    found = sorted(items, key=name)
    found.sort(key=order, reverse=reverse)
    if after:
        found = _behind(found, order, name, after, reverse)
    page = found[:limit]
    if len(page) == len(found) or not page:
        return page, None
    place = msgspec.json.encode((order(page[-1]), name(page[-1])))
    return page, urlsafe_b64encode(place).decode()


def _behind(found: list[T], order: Callable[[T], Any], name: Callable[[T], Any], after: str, reverse: bool) -> list[T]:
    def is_behind(each: T) -> bool:
        key = _tuples(order(each))
        if key == at:
            return bool(_tuples(name(each)) > last)
        return bool(key < at if reverse else key > at)

    try:
        at, last = _tuples(msgspec.json.decode(urlsafe_b64decode(after)))
        return list(filter(is_behind, found))
    except (ValueError, TypeError, msgspec.MsgspecError):
        raise BadQuestionError(f"invalid place after={after[:200]}. Start again without `after`.") from None


def _tuples(value: Any) -> Any:
    """Return a key with its lists as tuples, as it is after JSON."""
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


def rank_of(text: str, *names: str) -> int:
    """Return 0 if one of the names is the text, 1 if one begins with it, 2 otherwise; case does not matter."""
    wanted, compared = folded(text), list(map(folded, names))
    return 0 if wanted in compared else 1 if any(name.startswith(wanted) for name in compared) else 2


def names_behind(names: Sequence[str], after: str, limit: int | None) -> tuple[list[str], str | None]:
    """Return the names after `after`, which may be gone, and the last one if more follow. `names` are in order."""
    page = [name for name in names if name > after][:limit]
    return page, page[-1] if page and page[-1] != names[-1] else None
