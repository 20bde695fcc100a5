"""A registry as release 0.1.0 left it, from tests/fixtures/registry-0.1.0.tar.gz (made by the script beside it)."""

import json
import tarfile
from pathlib import Path

from namesrv_stream.kafka.reader import StoredRecord

ARCHIVE = Path(__file__).parent / "fixtures" / "registry-0.1.0.tar.gz"

BROKERS = {f"10.0.0.{number}:10911": f"broker-{number}" for number in (1, 2, 3)}
"""Living brokers: address -> broker name. broker-4 has unregistered, broker-2 lost its write permission."""
LEASE_MS = 1_800_000
RETENTION_MS = 36_500 * 24 * 3_600_000


def unpack(folder):
    """Put `registry` and `checkpoint` below the folder; return the log, the records with their offsets."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    lines = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return [
        StoredRecord(line["offset"], line["appended_at_ms"], line["key"].encode(), line["value"].encode())
        for line in lines
    ]
