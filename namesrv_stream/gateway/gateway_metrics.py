"""Record the gateway's metrics for Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Enum, Gauge
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from namesrv_stream.answers.job_status import JOB_STATES
from namesrv_stream.reporting.metrics_server import add_process_metrics, bounded
from namesrv_stream.wire.codes import RequestCode, ResponseCode

_UNKNOWN = "unknown"
_BUCKETS_S = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 25)

_BOUNDS = (*map(floatToGoString, _BUCKETS_S), "+Inf")


@dataclass(slots=True)
class _RequestTimes:
    """Requests of one code with one result. `in_bucket`: how many took up to each bound and over the one before."""

    times: int = 0
    seconds: float = 0.0
    in_bucket: list[int] = field(default_factory=lambda: [0] * len(_BOUNDS))

    def add(self, seconds: float) -> None:
        """Count a request."""
        self.times += 1
        self.seconds += seconds
        self.in_bucket[bisect_left(_BUCKETS_S, seconds)] += 1


class _RequestCollector(Collector):
    """The requests by code and result. prometheus_client's own metrics take locks, 4 µs of some 20 that a lookup takes.

    The scrape's thread may see a request's parts at different times.
    """

    def __init__(self) -> None:
        self._of: dict[tuple[int, int], _RequestTimes] = {}
        self._named: dict[tuple[str, str], _RequestTimes] = {}

    def of(self, code: int, result: int) -> _RequestTimes:
        """Return the requests of one code with one result."""
        return self._of.get((code, result)) or self._new(code, result)

    def _new(self, code: int, result: int) -> _RequestTimes:
        names = _name(RequestCode, code), _name(ResponseCode, result)
        answered = self._named.setdefault(names, _RequestTimes())
        if _UNKNOWN not in names:  # peers can invent any number of codes
            self._of[code, result] = answered
        return answered

    def collect(self) -> Iterator[Metric]:
        """Yield both metrics."""
        requests = CounterMetricFamily("namesrv_requests", "Requests answered.", labels=["code", "result"])
        seconds = HistogramMetricFamily("namesrv_request_seconds", "Time from request to answer.", labels=["code"])
        of_code: dict[str, list[_RequestTimes]] = {}
        for (code, result), answered in list(self._named.items()):
            requests.add_metric([code, result], answered.times)
            of_code.setdefault(code, []).append(answered)
        for code, each in of_code.items():
            counts = accumulate(map(sum, zip(*(answered.in_bucket for answered in each), strict=True)))
            total_s = sum(answered.seconds for answered in each)
            seconds.add_metric([code], list(zip(_BOUNDS, counts, strict=True)), total_s)
        yield from (requests, seconds)


class Metrics:
    """The metrics of one gateway. The event loop updates them; the monitoring server's thread reads them."""

    def __init__(self) -> None:
        of = self.registry = CollectorRegistry()
        add_process_metrics(of)
        self._requests = _RequestCollector()
        of.register(self._requests)
        self.connections = Gauge("namesrv_connections", "Open connections.", registry=of)
        self.epoch = Gauge("namesrv_snapshot_epoch", "Epoch of the served snapshot.", registry=of)
        self.age_s = Gauge("namesrv_snapshot_age_seconds", "Age of the served snapshot.", registry=of)
        self.lag_s = Gauge(
            "namesrv_registry_lag_seconds", "Distance of the newest event time in the tables from now.", registry=of
        )
        self.is_stale = Gauge(
            "namesrv_snapshot_stale", "1 if brokers are up and the tables lag far behind.", registry=of
        )
        self.unknown_s = Gauge(
            "namesrv_registry_unknown_seconds",
            "Time since the job last showed progress; 0 while it runs.",
            registry=of,
        )
        self.tables_damaged = Gauge("namesrv_tables_damaged", "1 if a table's file is missing or cut.", registry=of)
        self.job_state = Enum(
            "namesrv_job_state",
            "State of the job, from its reports in Kafka and from the tables.",
            registry=of,
            states=JOB_STATES,
        )
        self.certificate_ends_s = Gauge(
            "namesrv_certificate_expiry_timestamp_seconds",
            "Time at which the certificate of tls.server.certPath expires; 0 without one.",
            registry=of,
        )
        self._brokers = Gauge("namesrv_brokers", "Broker addresses with a lease.", ["cluster"], registry=of)
        self.records = Counter("namesrv_records", "Records that Kafka has acknowledged.", registry=of)
        self.kafka_errors = Counter(
            "namesrv_kafka_errors", "Records that Kafka has not acknowledged.", ["error"], registry=of
        )
        self.kafka_connected = Gauge("namesrv_kafka_connected", "1 if Kafka accepts records.", registry=of)
        self.kafka_away = Gauge(
            "namesrv_kafka_away",
            "1 if Kafka has acknowledged nothing for kafkaAwayMillis, so that the gateway rejects brokers.",
            registry=of,
        )
        self.records_waiting = Gauge("namesrv_records_waiting", "Records that wait for Kafka.", registry=of)
        self._not_allowed = Counter(
            "namesrv_not_allowed", "Requests of senders without the right.", ["code", "user", "effect"], registry=of
        )
        self._registrations = Counter(
            "namesrv_gateway_registrations", "Registrations sent to Kafka.", ["sent", "why"], registry=of
        )
        self._light = self._registrations.labels("light", "unchanged")

    def answered(self, code: int, result: int, seconds: float) -> None:
        """Count a request and the time until its answer."""
        self._requests.of(code, result).add(seconds)

    def not_allowed(self, request: str, user: str | None, effect: str) -> None:
        """Count a request that was refused, or would have been (`effect`). `user`: None if the sender is unknown."""
        self._not_allowed.labels(request, user or _UNKNOWN, effect).inc()

    def registered(self, why_in_full: str | None) -> None:
        """Count a registration that was sent, as a light heartbeat if there was no reason to send it in full."""
        (self._registrations.labels("full", why_in_full) if why_in_full else self._light).inc()

    def brokers(self, by_cluster: Mapping[str, int]) -> None:
        """Set the number of live brokers of each cluster."""
        self._brokers.clear()
        for cluster, count in bounded(by_cluster).items():
            self._brokers.labels(cluster).set(count)


def _name(codes: type[RequestCode] | type[ResponseCode], code: int) -> str:
    """Return the code's name, or one word for all unknown codes, because peers must not invent labels."""
    return codes(code).name if code in codes.__members__.values() else _UNKNOWN
