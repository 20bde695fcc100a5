"""A case through the rules by themselves: one registry that handles one record after the other, no JVM."""

from __future__ import annotations

from typing import Any

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.replay.cases import Case
from namesrv_stream.replay.checks import check_output, wire_version
from namesrv_stream.replay.steps import QueryVersionStep, Step
from namesrv_stream.rules.lease import (
    AddressState,
    ClockJump,
    Identity,
    LeaseEvent,
    Sign,
    after_signs,
    after_time,
    log_order,
)
from namesrv_stream.rules.lookup import is_version_changed
from namesrv_stream.rules.registration import RegisterReply
from namesrv_stream.rules.registry import LeaseEnd, RouteRegistry
from namesrv_stream.rules.requests import BrokerRequest, Command, RegisterBroker, Request
from namesrv_stream.rules.rows import LogPosition

Json = dict[str, Any]
_NO_GRACE = ClockJump(grace_ms=0)


def replay_by_rules(case: Case) -> Json:
    """The case's replay output, replies of the steps included where it is replayed in order of arrival."""
    registry = OneByOne(case.settings())
    numbered = list(enumerate(case.steps))
    if case.replay == "event_time":
        numbered.sort(key=lambda each: each[1].t)
    checks, results = {check.after: check for check in case.expect.checks}, {}
    output: Json = {"checks": []}
    for done, (number, step) in enumerate(numbered):
        results[str(number)] = registry.apply(step, offset=done)
        at = number if case.replay == "arrival" else done
        if check := checks.get(at):
            output["checks"].append(check_output(check, registry.routes.view(), case.settings(), base_ms=0))
    if case.replay == "arrival":
        output["results"] = {number: result for number, result in results.items() if result is not None}
    return output


class OneByOne:
    """One registry that handles one record after the other: what all others must come to (E1)."""

    def __init__(self, settings: NamesrvSettings) -> None:
        self.routes = RouteRegistry(settings)
        self._states: dict[str, AddressState] = {}
        self._now_ms = 0

    def apply(self, step: Step, offset: int) -> Json | None:
        """The step's reply, None where it has none."""
        self.pass_time(step.t)
        queried = self._queried(step) if isinstance(step, QueryVersionStep) else {}
        replies = [self.handle(request, LogPosition(step.t, 0, offset)) for request in step.requests()]
        return replies[-1] | queried if replies else None

    def pass_time(self, now_ms: int) -> None:
        """Event time has reached `now_ms`: leases with an earlier deadline end (D5)."""
        self._now_ms = max(self._now_ms, now_ms)
        ended: list[tuple[str, LeaseEvent]] = []
        for address, state in self._states.items():
            self._states[address], events = after_time(state, self._now_ms, _NO_GRACE)
            ended += [(address, event) for event in events]
        for address, event in sorted(ended, key=lambda each: log_order(each[1].event_time_ms, -1, -1, each[0])):
            self._tell(address, event, None)

    def handle(self, request: Request, at: LogPosition) -> Json:
        """Apply a record that is no tick; its reply."""
        if isinstance(request, BrokerRequest):
            return self._handle_sign(request, at)
        assert isinstance(request, Command)
        reply = self.routes.command(request, at)
        return {"code": reply.code} | ({} if reply.count is None else {"count": reply.count})

    def _handle_sign(self, request: BrokerRequest, at: LogPosition) -> Json:
        address = request.broker_addr
        state, events = after_signs(self._states.get(address), [_sign(request, at)], _NO_GRACE)
        if state is not None:
            self._states[address] = state
        reply: Json = {"code": 0}
        for event in events:
            reply |= self._tell(address, event, request)
        return reply

    def _tell(self, address: str, event: LeaseEvent, request: BrokerRequest | None) -> Json:
        sign = event.sign
        at = LogPosition(event.event_time_ms, sign.partition if sign else -1, sign.offset if sign else -1)
        if event.kind == "SEEN":
            self.routes.seen(address, event.event_time_ms)
        elif event.kind == "REGISTERED":
            assert isinstance(request, RegisterBroker)
            return _register_reply(self.routes.register(request, at))
        else:
            self.routes.end(LeaseEnd(event.kind, address, at, event.last_heard_ms))
        return {}

    def _queried(self, step: QueryVersionStep) -> Json:
        tables = self.routes.view()
        known = tables.live.get(step.addr)
        return {
            "changed": is_version_changed(tables, step.addr, step.version),
            "version": wire_version(known.data_version) if known else None,
        }


def _sign(request: BrokerRequest, at: LogPosition) -> Sign:
    identity, timeout_ms = None, 0
    if isinstance(request, RegisterBroker):
        identity, timeout_ms = (
            Identity(request.cluster_name, request.broker_name, request.broker_id),
            request.timeout_ms,
        )
    return Sign(
        kind=request.__struct_config__.tag,  # type: ignore[arg-type]  # the tag is one of Sign's kinds
        event_time_ms=at.event_time,
        partition=at.partition,
        offset=at.offset,
        channel_id=getattr(request, "channel_id", None),
        identity=identity,
        timeout_ms=timeout_ms,
    )


def _register_reply(reply: RegisterReply) -> Json:
    return {
        "masterAddr": reply.master_addr,
        "haServerAddr": reply.ha_server_addr,
        "orderTopicConfig": reply.order_topic_config,
    }
