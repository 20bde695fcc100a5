"""The commands `expectAbsence`, `listAbsences` and `endAbsence`: what operators plan to take away, and until when."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import wraps

import click
from rich.console import Group

from namesrv_stream.answers.absences import LONGEST_MS, NAMESPACE, Absence, absence_value, holding, subject_of
from namesrv_stream.answers.causes import Member
from namesrv_stream.answers.definitions import gone_brokers
from namesrv_stream.answers.job_status import Health
from namesrv_stream.answers.model import BadQuestionError, NotFoundError, not_found
from namesrv_stream.answers.questions import OfPlaces
from namesrv_stream.answers.trials import NOTHING_NAMED, Subject, is_up, named_subjects
from namesrv_stream.cli.commanding import UNTIL_PUBLISHED, WAIT_S, checked_length, requested_by_option, send
from namesrv_stream.cli.output import Rows, say, time_text
from namesrv_stream.cli.view import Answer, heading_of, open_registry, reads, seconds_option
from namesrv_stream.config import Invocation
from namesrv_stream.config.written_times import parsed_time
from namesrv_stream.reporting.texts import SHOWN_ZONE, broker_text, clock_text, counted
from namesrv_stream.rules.record_types import PutKvConfig
from namesrv_stream.tables.moment import RegistryAt

_DAY = timedelta(days=1)
_DAYS = LONGEST_MS // 86_400_000
_SKEW_MS = 60_000
"""Most that the tables' time may be behind this machine's, so that a plan begins with it."""

_TIMES = "14:00 (the next one), 2026-11-21 14:00 or 2026-11-21T14:00:05Z"
_FROM_NOW = re.compile(r"now|(\d+\s*[a-z]+\s*)+(ago)?", re.IGNORECASE)


def _to_come(text: str, *, is_begin: bool) -> datetime:
    """Return the time that a text names, of a time of day the next one. Raises ValueError."""
    now = datetime.now(UTC)
    if _FROM_NOW.fullmatch(text.strip()):
        return parsed_time(text, now, SHOWN_ZONE.get())
    is_of_day = ":" in text and "-" not in text
    return parsed_time(text, now + (_DAY if is_of_day else 366 * _DAY), SHOWN_ZONE.get(), is_begin=is_begin)


def _until(_context: click.Context, _option: click.Parameter, text: str | None) -> datetime | None:
    if text is None:
        return None
    if _FROM_NOW.fullmatch(text.strip()):
        raise click.BadParameter(f"{text!r} is not a time to come. Use {_TIMES}, or --for.")
    try:
        found = _to_come(text, is_begin=False)
    except ValueError as error:
        raise click.BadParameter(f"invalid time {text!r}. Use {_TIMES}.") from error
    if found <= datetime.now(UTC):
        raise click.BadParameter(f"{text!r} has passed. Use {_TIMES}.")
    return found


def _begin(_context: click.Context, _option: click.Parameter, text: str | None) -> datetime | None:
    try:
        return None if text is None else _to_come(text, is_begin=True)
    except ValueError as error:
        raise click.BadParameter(f"invalid time {text!r}. Use {_TIMES}, or '10m ago'.") from error


def _subjects(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options by which a command names what is away, which it gets as `asked`, and those of each change."""

    @wraps(command)
    def with_places(
        *args: object, brokers: Sequence[str], zones: Sequence[str], clusters: Sequence[str], **given: object
    ) -> None:
        command(*args, asked=OfPlaces(brokers=[*brokers], zones=[*zones], clusters=[*clusters]), **given)

    decorated: Callable[..., None] = with_places
    for decorate in (
        click.argument("brokers", metavar="[SUBJECT]...", nargs=-1),
        click.option("--zone", "zones", multiple=True, help="All brokers of this zone; repeatable."),
        click.option("-c", "--cluster", "clusters", multiple=True, help="All brokers of this cluster; repeatable."),
        seconds_option("wait", WAIT_S, UNTIL_PUBLISHED, least_s=0),
        requested_by_option,
        click.pass_obj,
    )[::-1]:
        decorated = decorate(decorated)
    return decorated


@click.command("expectAbsence")
@click.option("--until", callback=_until, metavar="TIME", help=f"End of the absence: {_TIMES}.")
@click.option(
    "--for", "lasts", callback=checked_length(LONGEST_MS), metavar="DURATION", help="How long it may last, such as 2h."
)
@click.option("--from", "begin", callback=_begin, metavar="TIME", help=f"Begin: {_TIMES}, or '10m ago' (default: now).")
@click.option("--reason", metavar="TEXT", required=True, help="Record this reason in the history.")
@_subjects
def expect_absence(  # noqa: PLR0913, PLR0917 -- each an option
    invocation: Invocation,
    until: datetime | None,
    lasts: timedelta | None,
    begin: datetime | None,
    reason: str,
    asked: OfPlaces,
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
    now_ms = time.time_ns() // 1_000_000
    begin_ms = max(min(now_ms, registry.now_ms), now_ms - _SKEW_MS) if begin is None else _millis(begin)
    end_ms = _millis(until) if until else begin_ms + (lasts or timedelta()) // timedelta(milliseconds=1)
    if not max(begin_ms, now_ms) < end_ms <= begin_ms + LONGEST_MS:
        raise click.UsageError(f"the end must be to come, and at most {_DAYS}d after the begin.")
    for subject, name, down in _asked(registry, asked):
        held = [each for each in holding(registry) if each.subject == subject and each.since <= begin_ms <= each.until]
        since_ms = int(held[0].since) if held else begin_ms
        if end_ms > since_ms + LONGEST_MS:
            raise BadQuestionError(f"not sent: {name} would be away for over {_DAYS}d, since {clock_text(since_ms)}.")
        for each in (each for each in down if each.since_ms < since_ms):
            say(f"warning: {_not_covered(each)}")
        value = absence_value(name, end_ms, requested_by, reason)
        key = f"{subject}@{since_ms}"
        record = PutKvConfig(namespace=NAMESPACE, key=key, value=value, reason=reason, requested_by=requested_by)
        say(f"{name} may be away from {clock_text(since_ms)} to {clock_text(end_ms)} ({reason})")
        send(invocation.settings, record, wait_s, is_sure=False)


def _not_covered(broker: Member) -> str:
    """Return why a planned absence from now on does not cover a broker that is not up."""
    who, since = broker_text(broker.name, broker.broker_id), clock_text(broker.since_ms)
    if broker.down and broker.down.absence and broker.state == "planned":
        return f"{who} is away since {since} by the plan for {broker.down.absence.name}: extend that one"
    return f"{who} is down since {since}, before this; `--from` with an earlier time covers it"


def _millis(at: datetime) -> int:
    return round(at.timestamp() * 1000)


@reads("listAbsences", watch=False)
def list_absences(registry: RegistryAt, health: Health | None) -> Answer:
    """List the planned absences that hold or are to come, the first end first."""
    found = holding(registry)
    rows = (
        [each.name, time_text(each.since), time_text(each.until), each.reason or "", each.requested_by or ""]
        for each in found
    )
    title = heading_of(counted(len(found), "planned absence"), registry, health)
    return Answer(found, Group(title, Rows(["subject", "from", "until", "reason+", "by?"], rows)))


@click.command("endAbsence")
@click.option("--reason", metavar="TEXT", help="Record this reason in the history.")
@_subjects
def end_absence(
    invocation: Invocation,
    reason: str | None,
    asked: OfPlaces,
    wait_s: float | None,
    requested_by: str,
) -> None:
    """End a planned absence before its time.

    A broker that is not back by then is down.
    """
    registry = open_registry(invocation.settings).newest()
    now_ms = max(time.time_ns() // 1_000_000, registry.now_ms + 1)  # so that who is back was back in time
    ended = []
    for subject, name, _ in _asked(registry, asked):
        held = [each for each in holding(registry) if each.subject == subject]
        if not held:
            raise BadQuestionError(f"not sent: {name} has no planned absence. `namesrv-stream listAbsences` lists all.")
        ended += held
    for each in ended:
        send(invocation.settings, _ended(each, now_ms, requested_by, reason), wait_s, is_sure=False)


def _ended(each: Absence, now_ms: int, requested_by: str, reason: str | None) -> PutKvConfig:
    value = absence_value(each.name, max(int(each.since), now_ms), each.requested_by, each.reason)
    return PutKvConfig(namespace=NAMESPACE, key=each.key, value=value, reason=reason, requested_by=requested_by)


def _asked(registry: RegistryAt, asked: OfPlaces) -> list[tuple[str, str, list[Member]]]:
    """Return each subject as a key has it, as sentences name it, and its brokers that are not up.

    Raises BadQuestionError.
    """
    try:
        found = named_subjects(registry, asked)
    except NotFoundError as error:
        raise BadQuestionError(f"not sent: {error}") from error
    if not found:
        raise BadQuestionError(NOTHING_NAMED)
    down = [[broker for broker in each.brokers if not is_up(broker)] for each in found]
    return [(*_key_of(registry, each), of) for each, of in zip(found, down, strict=True)]


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
