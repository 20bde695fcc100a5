"""Measure how long a gateway's event loop takes for registrations of 256 KiB that peers make as slow as they can.

    .venv/bin/python -m benchmarks.at_once

Each body is decoded as `FullOrLight.decide_at_once` decodes it, and by the usual limits. A refused one goes to another
process. CPU time is that of this process, so other work on the machine makes the figures no more than a little worse.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from benchmarks.harness import Bench, benchmark
from benchmarks.peers import registration
from namesrv_stream.records import encode_record
from namesrv_stream.rules.record_types import RegisterBroker
from namesrv_stream.wire.registration_request import RegisterBrokerBody, decode_registration
from namesrv_stream.wire.wire_errors import BadRequestError

SIZE_BYTES = 256 * 1024
_MAPPINGS = "topicQueueMappingInfoMap"
_RELEASE = 493
_ROUNDS = 7


def filled(before: str, item: Callable[[int], str], after: str) -> bytes:
    """Return items with commas in between, as many as make a body of SIZE_BYTES with the texts around them."""
    items: list[str] = []
    left = SIZE_BYTES - len(before) - len(after)
    while (left := left - len((text := item(len(items))).encode()) - 1) >= 0:
        items.append(text)
    return (before + ",".join(items) + after).encode()


def bodies() -> Iterable[tuple[str, bytes]]:
    """Yield what a body is full of, and the body."""
    topics, mappings = (f'{{"topicConfigSerializeWrapper":{{"{name}":{{' for name in ("topicConfigTable", _MAPPINGS))
    settings = '{"readQueueNums":1,"writeQueueNums":1,"perm":6}'
    yield "1,500 topics of a broker", registration(0, 1_500).body
    yield "topics with short names", filled(topics, lambda number: f'"{number:x}":{settings}', "}}}")
    yield "filter servers ab", filled('{"filterServerList":[', lambda _: '"ab"', "]}")
    yield "filter servers é", filled('{"filterServerList":[', lambda _: '"é"', "]}")
    yield "mappings of static topics", filled(mappings, lambda number: f'"{number:x}":{{}}', "}}}")
    yield "lists in a mapping", filled(mappings + '"t":{"a":[', lambda _: "[]", "]}}}}")
    yield "lists in an unknown field", filled('{"unknown":[', lambda _: "[]", "]}")
    yield "keys without quotes", filled("{", lambda _: '0:"aaaaaa"', "}")


def cpu_ms(body: bytes, *, only_quick: bool) -> tuple[float, bool]:
    """Return milliseconds of CPU to decode a body and encode its record, the best of some, and whether it is taken."""
    best_s, is_taken = float("inf"), False
    for _ in range(_ROUNDS):
        began_s = time.process_time()
        try:
            _encode(decode_registration(body, _RELEASE, only_quick=only_quick))
            is_taken = True
        except BadRequestError:
            pass
        best_s = min(best_s, time.process_time() - began_s)
    return best_s * 1e3, is_taken


def _encode(read: RegisterBrokerBody) -> None:
    wrapper = read.topic_config_serialize_wrapper
    encode_record(
        RegisterBroker(
            cluster_name="c",
            broker_name="b",
            broker_id=0,
            broker_addr="10.0.0.1:10911",
            ha_server_addr="10.0.0.1:10912",
            data_version=wrapper.data_version,
            topic_config_table=wrapper.topic_config_table,
            topic_queue_mapping_info_map=wrapper.topic_queue_mapping_info_map,
            filter_server_list=read.filter_server_list or [],
        )
    )


@benchmark()
def main(bench: Bench) -> None:
    """Print the figures."""
    rows = []
    for what, body in bodies():
        figures = [cpu_ms(body, only_quick=only_quick) for only_quick in (True, False)]
        rows.append((what, *(f"{taken_ms:.2f}{'' if is_taken else ', refused'}" for taken_ms, is_taken in figures)))
    bench.rows(("a body of 256 KiB, full of", "at once, ms", "by the usual limits, ms"), rows)


if __name__ == "__main__":
    main()
