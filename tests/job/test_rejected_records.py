"""Records that violate the contract, as the job's log shows them."""

import pytest

from namesrv_stream.job import source
from namesrv_stream.job.source import log_rejected, rejected_row
from namesrv_stream.kafka.record_reader import StoredRecord


@pytest.mark.parametrize(
    ("count", "last"),
    [
        (1, "the job rejected the record at partition 0, offset 0: no JSON"),
        (20, "the job rejected the record at partition 0, offset 19: no JSON"),
        (21, "the job rejected 1 more records, up to offset 20; `namesrv-stream rejected` lists them"),
        (5_000, "the job rejected 4980 more records, up to offset 4999; `namesrv-stream rejected` lists them"),
    ],
)
def test_of_the_records_that_a_publication_rejects_twenty_have_a_line(caplog, count, last):
    log_rejected([rejected_row(StoredRecord(offset, 0, b"", b"x"), 0, "no JSON") for offset in range(count)])
    told = [each.getMessage() for each in caplog.records if each.name == source.__name__]
    assert (len(told), told[-1]) == (min(count, 21), last)
