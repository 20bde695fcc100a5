"""The commands `expectAbsence` and `endAbsence`: what operators plan to take away, and until when."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import click

from namesrv_stream.answers.absences import LONGEST_MS, NAMESPACE, Absence, absence_value, holding, subject_of
from namesrv_stream.answers.definitions import gone_brokers
from namesrv_stream.answers.model import BadQuestionError, NotFoundError, not_found
from namesrv_stream.answers.questions import OfPlaces
from namesrv_stream.answers.trials import Subject, named_subjects
from namesrv_stream.cli.commanding import UNTIL_PUBLISHED, WAIT_S, requested_by_option, send
from namesrv_stream.cli.view import open_registry, seconds_option
from namesrv_stream.config import Invocation
from namesrv_stream.config.values import parsed_duration
from namesrv_stream.config.written_times import parsed_time
from namesrv_stream.reporting.texts import SHOWN_ZONE, broker_text
from namesrv_stream.rules.record_types import PutKvConfig
from namesrv_stream.tables.moment import RegistryAt

_DAY, _LONGEST = timedelta(days=1), timedelta(milliseconds=LONGEST_MS)
_TIMES = "14:00 (the next one), 2026-11-21 14:00 or 2026-11-21T14:00:05Z"


def _length(_context: click.Context, _option: click.Parameter, text: str | None) -> timedelta | None:
    if text is None:
        return None
    try:
        lasts = parsed_duration(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from error
    if not timedelta() < lasts <= _LONGEST:
        raise click.BadParameter("use more than 0 and at most 30d.")
    return lasts


def _until(_context: click.Context, _option: click.Parameter, text: str | None) -> datetime | None:
    """Return the time that a text names, of a time of day the next one."""
    if text is None:
        return None
    now = datetime.now(UTC)
    ahead = _DAY if ":" in text and "-" not in text else _LONGEST
    try:
        found = parsed_time(text, now + ahead, SHOWN_ZONE.get())
    except ValueError as error:
        raise click.BadParameter(f"invalid time {text!r}. Use {_TIMES}.") from error
    if found <= now:
        raise click.BadParameter(f"{text!r} has passed. Use {_TIMES}.")
    return found


def _begin(_context: click.Context, _option: click.Parameter, text: str | None) -> datetime:
    now = datetime.now(UTC)
    try:
        return now if text is None else parsed_time(text, now, SHOWN_ZONE.get(), is_begin=True)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _subjects(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options by which a command names what is away."""
    for decorate in (
        click.argument("brokers", metavar="[SUBJECT]...", nargs=-1),
        click.option("--zone", "zones", multiple=True, help="All brokers of this zone; repeatable."),
        click.option("-c", "--cluster", "clusters", multiple=True, help="All brokers of this cluster; repeatable."),
        seconds_option("wait", WAIT_S, UNTIL_PUBLISHED, least_s=0),
        requested_by_option,
        click.pass_obj,
    )[::-1]:
        command = decorate(command)
    return command


@click.command("expectAbsence")
@click.option("--until", callback=_until, metavar="TIME", help=f"End of the absence: {_TIMES}.")
@click.option("--for", "lasts", callback=_length, metavar="DURATION", help="How long it may last, such as 2h.")
@click.option("--from", "begin", callback=_begin, metavar="TIME", help="Begin of the absence (default: now).")
@click.option("--reason", metavar="TEXT", required=True, help="Record this reason in the history.")
@_subjects
def expect_absence(  # noqa: PLR0913, PLR0917 -- each an option
    invocation: Invocation,
    until: datetime | None,
    lasts: timedelta | None,
    begin: datetime,
    reason: str,
    brokers: tuple[str, ...],
    zones: tuple[str, ...],
    clusters: tuple[str, ...],
    wait_s: float | None,
    requested_by: str,
) -> None:
    """Say what may be away by plan, until when and why.

    SUBJECT is a broker group, an address or a broker ('broker-a master', broker-a/1). A broker whose lease ends within
    this time is in planned absence until it is back. One that is not back at the end is down.
    """
    if (until is None) == (lasts is None):
        raise click.UsageError("give either --until or --for.")
    registry = open_registry(invocation.settings).newest()
    end = until or begin + (lasts or timedelta())
    if not begin < end <= begin + _LONGEST:
        raise click.UsageError("the end must come after the begin, by at most 30d.")
    begin_ms, end_ms = (round(each.timestamp() * 1000) for each in (begin, end))
    for subject, name in _asked(registry, brokers, zones, clusters):
        held = [each for each in holding(registry) if each.subject == subject and each.since <= begin_ms]
        key = held[0].key if held else f"{subject}@{begin_ms}"
        value = absence_value(name, end_ms, requested_by, reason)
        record = PutKvConfig(namespace=NAMESPACE, key=key, value=value, reason=reason, requested_by=requested_by)
        send(invocation.settings, record, wait_s, is_sure=False)


@click.command("endAbsence")
@click.option("--reason", metavar="TEXT", help="Record this reason in the history.")
@_subjects
def end_absence(  # noqa: PLR0913, PLR0917 -- each an option
    invocation: Invocation,
    reason: str | None,
    brokers: tuple[str, ...],
    zones: tuple[str, ...],
    clusters: tuple[str, ...],
    wait_s: float | None,
    requested_by: str,
) -> None:
    """End a planned absence before its time.

    A broker that is not back by then is down.
    """
    registry = open_registry(invocation.settings).newest()
    now_ms = time.time_ns() // 1_000_000
    for subject, name in _asked(registry, brokers, zones, clusters):
        held = [each for each in holding(registry) if each.subject == subject]
        if not held:
            known = ", ".join(f"{each.name} {each.text}" for each in holding(registry))
            raise BadQuestionError(f"not sent: {name} has no planned absence. {f'Known: {known}.' if known else ''}")
        for each in held:
            send(invocation.settings, _ended(each, now_ms, requested_by, reason), wait_s, is_sure=False)


def _ended(each: Absence, now_ms: int, requested_by: str, reason: str | None) -> PutKvConfig:
    value = absence_value(each.name, max(int(each.since), now_ms), each.requested_by, each.reason)
    return PutKvConfig(namespace=NAMESPACE, key=each.key, value=value, reason=reason, requested_by=requested_by)


def _asked(
    registry: RegistryAt, brokers: Sequence[str], zones: Sequence[str], clusters: Sequence[str]
) -> list[tuple[str, str]]:
    """Return each subject as a key has it, and as sentences name it. Raises BadQuestionError."""
    if not (brokers or zones or clusters):
        raise BadQuestionError("nothing is named. Give a broker group, an address, a zone or a cluster.")
    try:
        found = named_subjects(registry, OfPlaces(brokers=[*brokers], zones=[*zones], clusters=[*clusters]))
    except NotFoundError as error:
        raise BadQuestionError(f"not sent: {error}") from error
    return [_key_of(registry, each) for each in found]


def _key_of(registry: RegistryAt, subject: Subject) -> tuple[str, str]:
    if subject.kind != "broker":
        return subject_of(subject.kind, subject.asked), subject.name
    keys = [(each.cluster, each.name, each.broker_id) for each in subject.brokers]
    for each in gone_brokers(registry):
        if subject.asked == each.broker_name:
            return subject_of("group", each.broker_name), each.broker_name
        if subject.asked == each.broker_addr:
            keys.append(each[:3])
    if not keys:
        raise not_found(registry, "broker", subject.asked, registry.brokers)
    cluster, name, broker_id = keys[0]
    return subject_of("broker", cluster, name, str(broker_id)), broker_text(name, broker_id)
