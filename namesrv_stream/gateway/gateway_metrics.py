"""Record the gateway's metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Enum, Gauge, Histogram

from namesrv_stream.reporting.metrics_server import add_process_metrics
from namesrv_stream.tables.job_progress import State
from namesrv_stream.wire.codes import RequestCode, ResponseCode

MAX_CLUSTERS = 100
_MAX_LABEL_CHARS = 100
_OTHER_CLUSTERS = "(others)"

_UNKNOWN = "unknown"
_BUCKETS_S = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 25)


class Metrics:
    """The metrics of one gateway. The event loop updates them; the monitoring server's thread reads them."""

    def __init__(self) -> None:
        of = self.registry = CollectorRegistry()
        add_process_metrics(of)
        self._requests = Counter("namesrv_requests", "Requests answered.", ["code", "result"], registry=of)
        self._seconds = Histogram(
            "namesrv_request_seconds", "From the request to its answer.", ["code"], buckets=_BUCKETS_S, registry=of
        )
        self.connections = Gauge("namesrv_connections", "Open connections.", registry=of)
        self.epoch = Gauge("namesrv_snapshot_epoch", "Epoch of the snapshot that is served.", registry=of)
        self.age_s = Gauge("namesrv_snapshot_age_seconds", "Since the served snapshot was published.", registry=of)
        self.lag_s = Gauge(
            "namesrv_registry_lag_seconds", "Event time between the newest record in the tables and now.", registry=of
        )
        self.is_stale = Gauge("namesrv_snapshot_stale", "1: brokers live and the tables are far behind.", registry=of)
        self.job_state = Enum(
            "namesrv_job_state", "The job as the served snapshot shows it.", registry=of, states=get_args(State)
        )
        self.certificate_ends_s = Gauge(
            "namesrv_certificate_expiry_timestamp_seconds",
            "When the certificate of tls.server.certPath ends, 0 without one.",
            registry=of,
        )
        self._brokers = Gauge("namesrv_brokers", "Live broker addresses.", ["cluster"], registry=of)
        self.records = Counter("namesrv_records", "Records that Kafka has acknowledged.", registry=of)
        self.kafka_errors = Counter("namesrv_kafka_errors", "Records that Kafka did not take.", ["error"], registry=of)
        self.kafka_connected = Gauge("namesrv_kafka_connected", "1: Kafka takes records and ticks.", registry=of)
        self.kafka_away = Gauge(
            "namesrv_kafka_away", "1: Kafka is silent for kafkaAwayMillis, so brokers are sent away.", registry=of
        )
        self.records_waiting = Gauge("namesrv_records_waiting", "Records that wait for Kafka.", registry=of)
        self._not_allowed = Counter(
            "namesrv_not_allowed", "Requests whose sender lacked a right.", ["code", "user", "effect"], registry=of
        )
        self._registrations = Counter(
            "namesrv_gateway_registrations", "Registrations sent to Kafka.", ["sent", "why"], registry=of
        )
        self._light = self._registrations.labels("light", "unchanged")
        self._of_code: dict[tuple[int, int], tuple[Counter, Histogram]] = {}

    def answered(self, code: int, result: int, seconds: float, times: int = 1) -> None:
        """Count `times` requests of one code that got the same result; `seconds` is one observation for all of them."""
        of_code = self._of_code.get((code, result)) or self._labelled(code, result)
        of_code[0].inc(times)
        of_code[1].observe(seconds)

    def not_allowed(self, request: str, user: str | None, effect: str) -> None:
        """Count a request that was refused, or would have been (`effect`). `user`: None if the sender is unknown."""
        self._not_allowed.labels(request, user or _UNKNOWN, effect).inc()

    def registered(self, why_in_full: str | None) -> None:
        """Count a registration that was sent, as a light heartbeat if there was no reason to send it in full."""
        (self._registrations.labels("full", why_in_full) if why_in_full else self._light).inc()

    def brokers(self, by_cluster: Mapping[str, int]) -> None:
        """Set the number of live brokers of each cluster.

        Peers can invent clusters, so only the MAX_CLUSTERS largest have a line each; the others share one.
        """
        largest = sorted(by_cluster.items(), key=lambda each: -each[1])
        shown = {cluster[:_MAX_LABEL_CHARS]: count for cluster, count in largest[:MAX_CLUSTERS]}
        if others := largest[MAX_CLUSTERS:]:
            shown[_OTHER_CLUSTERS] = sum(count for _, count in others)
        self._brokers.clear()
        for cluster, count in shown.items():
            self._brokers.labels(cluster).set(count)

    def _labelled(self, code: int, result: int) -> tuple[Counter, Histogram]:
        name = _name(RequestCode, code)
        labelled = self._requests.labels(name, _name(ResponseCode, result)), self._seconds.labels(name)
        if name != _UNKNOWN:  # peers can invent any number of codes
            self._of_code[code, result] = labelled
        return labelled


def _name(codes: type[RequestCode] | type[ResponseCode], code: int) -> str:
    """Return the code's name, or one word for all unknown codes, because peers must not invent labels."""
    return codes(code).name if code in codes.__members__.values() else _UNKNOWN
