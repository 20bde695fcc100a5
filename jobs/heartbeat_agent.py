"""Register the brokers of a file, with kafka-python only: to copy for a sidecar, a health checker, or a bridge.

    python jobs/heartbeat_agent.py --from-file brokers.json --kafka 127.0.0.1:9092

The file is a JSON list of registrations as docs/records.md has them, without `type` and `dataVersion`. The agent reads
it every second, registers added and changed brokers, and unregisters removed ones. A file that cannot be read changes
nothing. SIGTERM and Ctrl-C unregister all. If the agent is killed, the brokers expire.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import signal
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError

LEASE_MS = 120_000  # of a broker whose registration has no heartbeatTimeoutMillis; a heartbeat is sent each quarter
FULL_EVERY = 10  # heartbeats: one of so many is a registration, as light ones do not bring a lost lease back
LIMITS = {
    "bootstrap_timeout_ms": 5_000,
    "max_block_ms": 5_000,
    "request_timeout_ms": 4_000,
    "delivery_timeout_ms": 5_000,
}
MAX_RECORD_BYTES = 17 << 20  # what the topic takes
ADDRESS = re.compile(r"(\[[^\s\[\]]+\]|[^\s\[\]]+):[0-9]{1,5}")
Brokers = dict[str, dict[str, Any]]
log = logging.getLogger("heartbeat_agent")


def read_brokers(file: Path) -> Brokers:
    """Return the brokers of the file by address. Raises OSError or ValueError, which name what to mend."""
    listed = json.loads(file.read_text("utf-8"))
    if not isinstance(listed, list):
        raise ValueError("expected a JSON list of brokers")
    brokers = {each["brokerAddr"]: each for each in listed if is_broker(each)}
    if len(brokers) < len(listed):
        wrong = next((each for each in listed if not is_broker(each)), "an address appears twice")
        raise ValueError(
            "a broker needs the strings clusterName, brokerName and brokerAddr (host:port, each once) and the number "
            f"brokerId, not {json.dumps(wrong)[:200]}"
        )
    return brokers


def is_broker(each: Any) -> bool:
    """Return whether this is a broker. The job checks the other fields, and shows what it refused in `rejected`."""
    return (
        isinstance(each, dict)
        and all(isinstance(each.get(name), str) and each[name] for name in ("clusterName", "brokerName", "brokerAddr"))
        and ADDRESS.fullmatch(each["brokerAddr"]) is not None
        and 0 < int(each["brokerAddr"].rpartition(":")[2]) < 1 << 16
        and type(each.get("brokerId")) is int
        and 0 <= each["brokerId"] < 1 << 63
        and type(each.get("heartbeatTimeoutMillis", LEASE_MS)) is int
        and each.get("heartbeatTimeoutMillis", LEASE_MS) > 0
    )


def records(
    wanted: Brokers, registered: Brokers, unsure: set[str], is_due: bool, is_full: bool
) -> Iterator[dict[str, Any]]:
    """Yield the records after which the registry has the wanted brokers instead of those registered before.

    `unsure`: addresses of which Kafka may have taken a record, as its answer was lost.
    """
    for address in (registered.keys() | unsure) - wanted.keys():
        yield {"type": "UNREGISTER_BROKER", "brokerAddr": address}
    for address, broker in wanted.items():
        if registered.get(address) != broker or address in unsure or (is_due and is_full):
            version = {"counter": zlib.crc32(json.dumps(broker).encode())}  # another one if anything is changed
            yield broker | {"type": "REGISTER_BROKER", "dataVersion": version}
        elif is_due:
            yield {"type": "BROKER_HEARTBEAT", "brokerAddr": address}


def send(batch: list[dict[str, Any]], topic: str, **kafka: Any) -> None:
    """Send the records and wait until Kafka has all of them. Raises KafkaError.

    Each batch has a new producer: one that saw a long outage of Kafka may stay silent after it.
    """
    producer = KafkaProducer(
        **LIMITS, max_request_size=MAX_RECORD_BYTES, enable_idempotence=False, allow_auto_create_topics=False, **kafka
    )
    try:
        for sent in [producer.send(topic, json.dumps(each).encode(), each["brokerAddr"].encode()) for each in batch]:
            sent.get(LIMITS["delivery_timeout_ms"] / 1000)
    finally:
        producer.close(timeout=0)


def heartbeat_s(wanted: Brokers) -> float:
    """Return the time from one heartbeat to the next, by the shortest lease."""
    leases_ms: list[int] = [each.get("heartbeatTimeoutMillis", LEASE_MS) for each in wanted.values()]
    return min([LEASE_MS, *leases_ms]) / 4_000


def options() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from-file", type=Path, required=True)
    parser.add_argument("--kafka", default="127.0.0.1:9092", metavar="HOST:PORT,...")
    parser.add_argument("--topic", default="broker-heartbeats", metavar="NAME")
    return parser.parse_args()


def main() -> None:
    """Follow the file until SIGTERM or Ctrl-C. A problem is logged once, and what was not sent is sent again."""
    given, stop = options(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    wanted: Brokers = {}
    registered: Brokers = {}
    unsure: set[str] = set()
    beats, beat_at, problem = 0, 0.0, ""
    while True:
        is_leaving, former, problem = stop.is_set(), problem, ""
        try:
            wanted = {} if is_leaving else read_brokers(given.from_file)
        except (OSError, ValueError, RecursionError) as error:
            problem = f"cannot read {given.from_file}: {error}. Its brokers stay registered as before. Correct it."
        is_due = time.monotonic() >= beat_at + heartbeat_s(wanted)
        batch = list(records(wanted, registered, unsure, is_due, is_full=beats % FULL_EVERY == 0))
        try:
            if batch:
                send(batch, given.topic, bootstrap_servers=given.kafka.split(","))
                log.info("agent sent %s", ", ".join(f"{each['type']} {each['brokerAddr']}" for each in batch))
            registered, unsure = wanted, set()
            if is_due:
                beats, beat_at = beats + 1, time.monotonic()
        except (KafkaError, ValueError) as error:
            unsure |= {each["brokerAddr"] for each in batch}
            problem = (
                f"cannot write {len(batch)} records to Kafka at {given.kafka}: {error!r}; the agent sends them again"
            )
        if problem != former:
            log.info("%s", problem or "the agent has recovered")
        if is_leaving:
            left = registered.keys() | unsure
            sys.exit(f"{len(left)} brokers could not be unregistered; they expire" if left else 0)
        stop.wait(1)


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(message)s")
    log.setLevel(logging.INFO)
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # an outage is one line of this program's instead
    main()
