"""Registries as earlier releases left them, from the archives in tests/fixtures.

`git show 5fecf57:tests/fixtures/make_registry_0_1_0.py` and `...make_registry_with_grace.py` have made them.
"""

import json
import tarfile
from pathlib import Path

from namesrv_stream.kafka.record_reader import StoredRecord

FIXTURES = Path(__file__).parent / "fixtures"
ARCHIVE = FIXTURES / "registry-0.1.0.tar.gz"
WITH_GRACE = FIXTURES / "registry-with-grace.tar.gz"
WITH_COUNTS = FIXTURES / "registry-with-counts.tar.gz"

BROKERS = {f"10.0.0.{number}:10911": f"broker-{number}" for number in (1, 2, 3)}
"""Living brokers: address -> broker name. broker-4 has unregistered, broker-2 lost its write permission."""
LEASE_MS = 1_800_000
RETENTION_MS = 36_500 * 24 * 3_600_000


def unpack(folder):
    """Put `registry` and `checkpoint` below the folder; return the log, the records with their offsets."""
    extract(ARCHIVE, folder)
    lines = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return [
        StoredRecord(line["offset"], line["appended_at_ms"], line["key"].encode(), line["value"].encode())
        for line in lines
    ]


def extract(archive, folder):
    """Put what an archive has below the folder."""
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
