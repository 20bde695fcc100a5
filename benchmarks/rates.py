"""Measure what changes of topics cost by how many there are a minute: CPU, freshness, and bytes of the tables.

    .venv/bin/python -m benchmarks.rates
    .venv/bin/python -m benchmarks.rates --plot docs/changes.svg

Kafka, the job with its default settings and a gateway are processes of their own. A hundred brokers of 20 topics each
send a heartbeat every 30 s; one after the other changes a topic.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import Bench, benchmark, cores, cpu_by_part, job_parts, job_process, option, percentile
from benchmarks.job import BROKERS, Site, Tables, heartbeats, running_site
from namesrv_stream.rules.rows import LogPosition

_WARM_UP_S = 15.0
_A_MINUTE = (6, 60, 600, 3_000, 12_000)


class Found(NamedTuple):
    """The figures of one rate. `fresh_ms`: append to snapshot, of each change. `written_mb`: of a minute."""

    fresh_ms: list[float]
    cores: dict[str, float]
    written_mb: float

    def cells(self) -> dict[str, float]:
        """Return the figures by name."""
        return {
            "append to snapshot, p50, ms": percentile(self.fresh_ms, 0.5),
            "append to snapshot, p99, ms": percentile(self.fresh_ms, 0.99),
            "cores of the job": sum(self.cores.values()) - self.cores["gateway"] - self.cores["Kafka"],
            "cores of the gateway": self.cores["gateway"],
            "cores of Kafka": self.cores["Kafka"],
            "written to the tables in a minute, MB": self.written_mb,
        }


def change_at(site: Site, a_minute: int, seconds: float) -> list[LogPosition]:
    """Change topics evenly at a rate for so long, at least one. Return where each is in the log."""
    sent, began_s = [], time.monotonic()
    for number in range(max(1, round(a_minute * seconds / 60))):
        time.sleep(max(0.0, began_s + number * 60 / a_minute - time.monotonic()))
        sent.append(site.brokers.start_change(number % BROKERS))
    return [each.result(60) for each in sent]


def measure(site: Site, tables: Tables, job: int, a_minute: int, seconds: float) -> Found:
    """Measure one rate while the job runs."""
    change_at(site, a_minute, min(seconds, _WARM_UP_S))
    processes, root = job_parts(job, site.others), site.folder / "registry"
    before_s = cpu_by_part(processes)
    before_mb, began_s = _written_mb(root), time.monotonic()
    changes = change_at(site, a_minute, seconds)
    published = tables.wait_for({changes[-1].partition: changes[-1].offset + 1})
    taken_s = time.monotonic() - began_s
    taken = cores(before_s, cpu_by_part(processes), taken_s)
    written_mb = 60 * (_written_mb(root) - before_mb) / taken_s
    return Found(tables.fresh_ms(changes, published.epoch), taken, written_mb)


def _written_mb(root: Path) -> float:
    return sum(file.stat().st_size for file in root.rglob("*") if file.is_file()) / 1e6


@benchmark(option("--a-minute", _A_MINUTE), option("--seconds", 40.0, "Of each rate."), plot=True)
def main(bench: Bench, a_minute: Sequence[int], seconds: float) -> None:
    """Print one column for each rate."""
    with running_site(bench.folder, {}) as site:
        tables = Tables(site.folder / "registry")
        with job_process(site.folder, site.options) as job, heartbeats(site.peers):
            tables.wait_for_publication(0)
            columns = [measure(site, tables, job, rate, seconds).cells() for rate in a_minute]
    texts = [
        {name: f"{value:,.2f}" if value < 10 else f"{value:,.0f}" for name, value in each.items()} for each in columns
    ]
    bench.columns({f"{rate:,} changes a minute": each for rate, each in zip(a_minute, texts, strict=True)})
    bench.draw("changes a minute", a_minute, {figure: [each[figure] for each in columns] for figure in columns[0]})


if __name__ == "__main__":
    main()
