"""Run brokers with leases of 10 s that send a heartbeat every second through one gateway, and check that none expires.

    make bench-heartbeats                       # 5,000 brokers, two minutes
    make bench-heartbeats ARGS='--minutes 10'

Kafka, the job and the gateway are processes of their own. One more broker changes a topic every second; the time from
its append to the snapshot that shows it is the lag. The exit status is 1 if a lease ended or the lag was over 3 s.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from benchmarks.brokers import Brokers
from benchmarks.harness import (
    Bench,
    benchmark,
    cpu_seconds,
    gateway_process,
    job_process,
    memory_mb,
    option,
    percentile,
    running_kafka,
    wait_until,
)
from benchmarks.job import Tables
from namesrv_stream.config import NamesrvSettings, kafka_client_arguments
from namesrv_stream.kafka.producer import HeartbeatProducer
from namesrv_stream.kafka.topic import end_offsets, ensure_topic
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import BROKER_EVENT

LAG_LIMIT_S = 3.0
_START_LIMIT_S = 180.0
_PROBE_EVERY_S = 1.0


class Site:
    """The tables and the topic of the run, seen from beside."""

    def __init__(self, root: Path, settings: NamesrvSettings) -> None:
        self.tables = Tables(root)
        self._root = Root(str(root))
        self._settings = settings
        self._kafka = kafka_client_arguments(settings)

    def live(self) -> int:
        """Return the number of leases."""
        return len(Registry(self._root).follow().routes.live)

    def ended(self) -> Counter[str]:
        """Return the number of leases of the brokers that ended, by type of their line of history."""
        events = self._root.open(BROKER_EVENT).to_pyarrow_table(columns=["type", "broker_name"]).to_pylist()
        ends = [each["type"] for each in events if str(each["broker_name"]).startswith("lively-")]
        return Counter(kind for kind in ends if kind in {"EXPIRED", "CHANNEL_CLOSED", "UNREGISTERED"})

    def records(self) -> int:
        """Return the number of records in the topic."""
        return sum(end_offsets(self._kafka, self._settings.kafka_topic).values())

    def lags_s(self, probe: Brokers, seconds: float) -> list[float]:
        """Change a topic every second for `seconds`. Return the time of each from its append to its snapshot."""
        found, until_s = list[float](), time.monotonic() + seconds
        while (began_s := time.monotonic()) < until_s:
            found.append(self.tables.shown_after_ms(probe.change(0)) / 1e3)
            time.sleep(max(0.0, began_s + _PROBE_EVERY_S - time.monotonic()))
        return found


def measure(folder: Path, brokers: int, seconds: float) -> tuple[dict[str, str], bool]:
    """Run that many brokers for `seconds`. Return the figures, and whether a lease ended or the lag was too long."""
    with running_kafka(folder) as (_, options):
        settings = NamesrvSettings.model_validate(options)
        arguments = kafka_client_arguments(settings)
        ensure_topic(arguments, settings.kafka_topic)
        site = Site(folder / "registry", settings)
        with (
            job_process(folder, options) as job,
            HeartbeatProducer(arguments, settings.kafka_topic) as producer,
            gateway_process(folder, options) as (port, gateway),
        ):
            probe = Brokers(producer, 1, 20)
            probe.register_all()
            site.tables.wait_for_publication(0)
            command = [sys.executable, "-m", "benchmarks.lively_brokers", str(port), str(brokers), str(seconds)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as load:
                assert load.stdout is not None
                load.stdout.readline()
                wait_until(lambda: site.live() > brokers, "all brokers in the tables", _START_LIMIT_S)
                found, lags_s = _watched(site, probe, {"job": job, "gateway": gateway}, seconds - 10)
                said = json.loads(load.stdout.readline())
        ended, live = site.ended(), site.live()
    figures = {
        "heartbeats a second": f"{said['heartbeats_per_s']:,.0f}",
        "the latest heartbeat left its broker late by, ms": f"{said['latest_ms']:,.0f}",
        **found,
        "leases at the end": f"{live:,} of {brokers + 1:,}",
        "leases that ended": str(dict(ended) or "none"),
    }
    return figures, bool(ended) or live != brokers + 1 or max(lags_s) > LAG_LIMIT_S


def _watched(site: Site, probe: Brokers, pids: dict[str, int], seconds: float) -> tuple[dict[str, str], list[float]]:
    records, began_s = site.records(), time.monotonic()
    cpu_s = {name: cpu_seconds(pid) for name, pid in pids.items()}
    lags_s = site.lags_s(probe, seconds)
    taken_s = time.monotonic() - began_s
    figures = {
        "records a second in Kafka": f"{(site.records() - records) / taken_s:,.0f}",
        **{f"cores of the {name}": f"{(cpu_seconds(pid) - cpu_s[name]) / taken_s:.2f}" for name, pid in pids.items()},
        "memory of the gateway, MB": f"{memory_mb(pids['gateway']):.0f}",
        **{
            f"append to snapshot, p{100 * share:.0f}, s": f"{percentile(lags_s, share):.2f}"
            for share in (0.5, 0.99, 1.0)
        },
    }
    return figures, lags_s


@benchmark(option("--brokers", 5_000), option("--minutes", 2.0))
def main(bench: Bench, brokers: int, minutes: float) -> bool:
    """Print the figures."""
    figures, has_failed = measure(bench.folder, brokers, minutes * 60)
    bench.columns({"value": figures}, f"{brokers:,} brokers with leases of 10 s for {minutes:g} minutes")
    return has_failed


if __name__ == "__main__":
    main()
