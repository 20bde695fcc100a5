"""Replay a case through the rules alone: one registry applies one record after the other, without a JVM."""

from __future__ import annotations

from namesrv_stream.rules.commands import CommandReply
from namesrv_stream.rules.lookup import is_version_changed
from namesrv_stream.rules.record_types import RegisterBroker, Request, Scan
from namesrv_stream.rules.registration import RegisterReply, reply
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LogPosition
from replay.case_checks import Json, check_output, wire_version
from replay.cases import Case, QueryVersionStep, ScanStep, Step


def replay_by_rules(case: Case) -> Json:
    """Return the case's replay output, with the replies of the steps if `replay` is `arrival`."""
    registry = OneByOne(RouteRegistry(case.settings()))
    checks, results = {check.after: check for check in case.expect.checks}, {}
    output: Json = {"checks": []}
    for number, step in enumerate(case.steps):
        if case.replay == "arrival":
            registry.append(Scan(), step.t)
        results[str(number)] = registry.step(step)
        if check := checks.get(number):
            tables, asked_at_ms = registry.routes.view(), max(each.t for each in case.steps[: number + 1])
            output["checks"].append(check_output(check, tables, case.settings(), 0, asked_at_ms))
    if case.replay == "arrival":
        output["results"] = {number: result for number, result in results.items() if result is not None}
    return output


class OneByOne:
    """A log in memory: each record gets the next offset and is applied at once.

    Any other way to read the log must give the same result (E1).
    """

    def __init__(self, routes: RouteRegistry) -> None:
        self.routes = routes
        self.next_offset = 0

    def append(self, request: Request, append_time_ms: int) -> RegisterReply | CommandReply | None:
        """Apply a record at the end of the log and return its reply."""
        at = LogPosition(append_time_ms, 0, self.next_offset)
        self.next_offset += 1
        applied = self.routes.apply(request, at)
        if isinstance(request, RegisterBroker):
            return reply(self.routes.view(), self.routes.settings, request)
        return applied

    def step(self, step: Step) -> Json | None:
        """Apply a step of a case and return its reply, None if it has none."""
        if isinstance(step, ScanStep):
            self.append(Scan(), step.t)
            return None
        queried = self._queried(step) if isinstance(step, QueryVersionStep) else {}
        replies = [_reply_output(self.append(request, step.t)) for request in step.requests()]
        return replies[-1] | queried if replies else None

    def _queried(self, step: QueryVersionStep) -> Json:
        tables = self.routes.view()
        known = tables.live.get(step.addr)
        return {
            "changed": is_version_changed(tables, step.addr, step.version),
            "version": wire_version(known.data_version) if known else None,
        }


def _reply_output(answer: RegisterReply | CommandReply | None) -> Json:
    match answer:
        case RegisterReply():
            return {
                "code": 0,
                "masterAddr": answer.master_addr,
                "haServerAddr": answer.ha_server_addr,
                "orderTopicConfig": answer.order_topic_config,
            }
        case CommandReply():
            return {"code": answer.code} | ({} if answer.count is None else {"count": answer.count})
    return {"code": 0}
