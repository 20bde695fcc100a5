"""A request about a moment, and the parameters that several paths share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request, Response

from namesrv_stream import __version__
from namesrv_stream.console import answers
from namesrv_stream.console.models import BetweenFields
from namesrv_stream.console.moments import time_ms, zone_named
from namesrv_stream.console.problems import BadQuestionError
from namesrv_stream.console.running import Running
from namesrv_stream.errors import did_you_mean
from namesrv_stream.history.between import Between
from namesrv_stream.history.events import AsOf
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.reader import RegistryView
from namesrv_stream.texts import iso_text
from namesrv_stream.wire.json_text import encode_json

_FORMS = (
    "2026-11-21T03:12:00Z, 03:12, 10m, 2h ago. A time without a zone is in tz, or in the zone of the console's machine."
)


def check_parameters(request: Request) -> None:
    """Refuse a parameter that the path does not have: a misspelt `epoch` must not answer the present."""
    described = request.app.openapi()["paths"][request.scope["route"].path_format][request.method.lower()]
    known = [each["name"] for each in described.get("parameters", ()) if each["in"] == "query"]
    for name in request.query_params:
        if name not in known:
            advice = did_you_mean(name, known) or (f"Accepted are {', '.join(known)}. " if known else "It has none. ")
            raise BadQuestionError(f"{name[:100]!r} is no parameter of this path. {advice}/docs describes all.")


def _running(request: Request) -> Running:
    running: Running = request.app.state.running
    return running


def _zone(
    tz: Annotated[
        str | None,
        Query(description="Zone of times without one: Europe/Berlin. Without it that of the console's machine."),
    ] = None,
) -> tzinfo | None:
    return zone_named(tz)


Zone = Annotated[tzinfo | None, Depends(_zone)]


def _moment(
    zone: Zone,
    epoch: Annotated[int | None, Query(ge=1, description="As it was in this epoch.")] = None,
    at: Annotated[str | None, Query(description=f"As it was at this event time: {_FORMS}")] = None,
) -> AsOf:
    if epoch is not None and at is not None:
        raise BadQuestionError("epoch and at both name a moment: give one of them.")
    return AsOf(epoch, None if at is None else time_ms(at, datetime.now(UTC), zone))


Console = Annotated[Running, Depends(_running)]
Moment = Annotated[AsOf, Depends(_moment)]
Limit = Annotated[int, Query(ge=1, le=answers.MOST_LISTED, description="Most items of the answer.")]
After = Annotated[str, Query(description="Begin behind this item: `next` of the page before.")]
Since = Annotated[str | None, Query(description=f"From this event time on: {_FORMS}")]
Until = Annotated[str | None, Query(description="Up to this event time.")]
Containing = Annotated[str, Query(description="Only those whose name contains this text.")]
Name = Annotated[str, Path(min_length=1, max_length=1000)]


def _chosen(
    cluster: Annotated[str | None, Query(description="Only of this cluster.")] = None,
    zone: Annotated[str | None, Query(description="Only of this zone; empty: only those without one.")] = None,
    q: Annotated[str, Query(description="Only those whose name or address contains this text.")] = "",
) -> answers.Chosen:
    return answers.Chosen(cluster, zone, q)


Wanted = Annotated[answers.Chosen, Depends(_chosen)]


@dataclass(frozen=True)
class Question:
    """A request about a moment."""

    console: Console
    request: Request
    moment: Moment
    zone: Zone

    def answer(
        self, compute: Callable[[RegistryView], Mapping[str, Any]], *, oldest: SnapshotRow | None = None
    ) -> Response:
        """Answer from memory if this was asked before, and with 304 if the sender has the answer.

        `oldest`: the oldest snapshot that can be read, if the answer depends on it too. A moment between two
        snapshots is answered from the one before, and the answer says so.
        """
        row, request = self.console.row(self.moment), self.request
        lacking = self.console.snapshots.between(row, self.moment.at_ms) if self.moment.at_ms is not None else None
        begin = "" if oldest is None else f"{oldest.epoch}-"
        end = "" if lacking is None else f"-{lacking.at_ms}-{lacking.events}"
        etag = f'"{begin}{row.epoch}-{row.published_at:x}-{__version__}{end}"'
        headers = {"etag": etag, "cache-control": "no-cache", "x-registry-epoch": str(row.epoch)}
        known = {each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")}
        if etag in known:
            return Response(status_code=304, headers=headers)
        asked = sorted(each for each in request.query_params.multi_items() if each[0] not in ("epoch", "at"))
        about = (begin, end, request.url.path, tuple(asked))
        body = self.console.snapshots.answer(
            row, about, lambda: encode_json(_with_notice(compute(self.console.view(row)), lacking))
        )
        return Response(body, media_type="application/json", headers=headers)


Asked = Annotated[Question, Depends()]


def _with_notice(answer: Mapping[str, Any], lacking: Between | None) -> Mapping[str, Any]:
    """Add to the snapshot of an answer what it lacks of the moment that was asked for."""
    if lacking is None or "snapshot" not in answer:
        return answer
    notice: BetweenFields = {
        "askedAt": iso_text(lacking.at_ms) or "",
        "nextEpoch": lacking.after.epoch,
        "nextEventTime": iso_text(lacking.after.event_time) or "",
        "events": lacking.events,
    }
    return {**answer, "snapshot": answer["snapshot"] | {"between": notice}}
