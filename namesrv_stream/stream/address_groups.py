"""Groups of broker addresses, which Spark visits at once in the stateful step, and the rows that it finds there.

The state is keyed by broker address within a group. A micro-batch visits each group once if it has a record of it, and
sends Spark's state server one request for each address that was heard. With a visit for each address, these would be
three requests and an Arrow batch (docs/decisions/0012-addresses-in-groups.md).
"""

from __future__ import annotations

import json
import zlib
from typing import NamedTuple, Self

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

ADDRESS_GROUPS = 64
"""The number of groups. The state's format (`checkpoint.STATE_FORMAT`) names it: raise that with this."""

NO_ADDRESS = -1
"""The group of ticks, commands and rejected records, which belong to no address."""


class ParsedRecord(NamedTuple):
    """One record of a broker address, or of none: the column `record` of `in_groups`, a JSON object of these fields.

    `length` in bytes, and `reason` of a rejected record.
    """

    broker_addr: str
    append_time_ms: int
    offset: int
    kind: str
    timeout_ms: int
    channel_id: str | None = None
    length: int | None = None
    reason: str | None = None

    @classmethod
    def of_json(cls, text: str) -> Self:
        """Return the record that a row of the stateful step's input has."""
        return cls(**json.loads(text))


def in_groups(records: DataFrame) -> DataFrame:
    """One row for each row of `source.parsed_records`: `address_group`, `event_time`, and the rest as one `record`.

    One column in place of many, as Spark's Python worker reads each cell by itself.
    """
    address = F.col("broker_addr")
    group = F.when(address == "", NO_ADDRESS).otherwise(F.crc32(address.cast("binary")) % ADDRESS_GROUPS)
    return records.select(
        group.cast("int").alias("address_group"),
        "event_time",
        F.to_json(F.struct(*ParsedRecord._fields)).alias("record"),
    )


def group_of(broker_addr: str) -> int:
    """Return the group of an address, as `in_groups` has it."""
    return zlib.crc32(broker_addr.encode()) % ADDRESS_GROUPS
