"""The description of the API: the shape of each answer and of each error, for programs that are made from it."""

from __future__ import annotations

from typing import Any

import msgspec

from namesrv_stream.console.present import Sent, Watched
from namesrv_stream.questions import accounts, job_status, lists, overview, periods
from namesrv_stream.questions.command_sending import OperatorCommand


class Problem(msgspec.Struct):
    """An error; `message` says what to do."""

    error: str
    status: int
    message: str


_ERRORS = {
    400: "A parameter or a body that the console cannot use.",
    404: "There never was such a name or such an epoch.",
    410: "The snapshot is past snapshot.retention; the history goes further back.",
    503: "The tables or Kafka do not answer, or there is no registry yet.",
}
_OF_PRESENT = (400, 503)
ANSWERS: dict[str, type] = {
    "/v1/overview": overview.Overview,
    "/v1/topics": lists.Topics,
    "/v1/topics/{topic}": lists.Route,
    "/v1/brokers": lists.Brokers,
    "/v1/brokers/{name}": lists.BrokerPage,
    "/v1/gone": overview.GonePage,
    "/v1/clusters": lists.Clusters,
    "/v1/events": accounts.Events,
    "/v1/why/{name}": accounts.Story,
    "/v1/diff": accounts.Diff,
    "/v1/snapshots": accounts.Snapshots,
    "/v1/timeline": periods.Timeline,
    "/v1/churn": periods.Churn,
    "/v1/status": job_status.Status,
    "/v1/watch": Watched,
    "/v1/commands": Sent,
}
_PRESENT = {"/v1/status", "/v1/watch", "/v1/commands"}


def complete(description: dict[str, Any]) -> dict[str, Any]:
    """Add the shapes of answers, errors and commands to FastAPI's description, in place."""
    kinds = [OperatorCommand, Problem, *ANSWERS.values()]
    template = "#/components/schemas/{name}"
    schemas, parts = msgspec.json.schema_components(
        kinds, schema_hook=lambda _: {"type": "object"}, ref_template=template
    )
    description.setdefault("components", {}).setdefault("schemas", {}).update(parts)
    shapes = dict(zip(ANSWERS, schemas[2:], strict=True))
    for path, methods in description["paths"].items():
        for about in methods.values():
            _describe(about["responses"], shapes[path], schemas[1], is_past=path not in _PRESENT)
    watched = description["paths"]["/v1/watch"]["get"]["responses"]["200"]
    watched["content"]["text/event-stream"] = {"schema": {"type": "string"}}
    posted = description["paths"]["/v1/commands"]["post"]
    unknown = "An order configuration names brokers that the registry does not have, and `unknown` is not set."
    posted["responses"]["409"] = {"description": unknown, "content": {"application/json": {"schema": schemas[1]}}}
    posted["requestBody"] = {"required": True, "content": {"application/json": {"schema": schemas[0]}}}
    return description


def _describe(responses: dict[str, Any], answer: dict[str, Any], problem: dict[str, Any], *, is_past: bool) -> None:
    responses.pop("422", None)
    for status in [each for each in responses if each.startswith("2")]:
        responses[status]["content"] = {"application/json": {"schema": answer}}
    for code, text in _ERRORS.items():
        if is_past or code in _OF_PRESENT:
            responses[str(code)] = {"description": text, "content": {"application/json": {"schema": problem}}}
