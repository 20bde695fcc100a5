"""The checks that keep two jobs on one bucket from overwriting each other. By delta-rs, which needs no JVM."""

from collections import Counter
from contextlib import suppress
from functools import partial

import pytest

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError, StorageError, TermLostError
from namesrv_stream.job.failures import storage_errors
from namesrv_stream.tables.object_store import writer_of
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.root import Root
from tests.published import rows_of
from tests.s3.conftest import S3Server
from tests.tables.batches import assert_shows_exactly, batch, claim, run_together
from tests.tables.rows import NOW


def test_of_runs_that_claim_at_once_no_two_have_the_same_term_and_the_last_one_publishes(root):
    claimed = []

    def try_to_claim(name):
        with suppress(TermLostError):
            claimed.append(claim(root, name))

    run_together(*(partial(try_to_claim, f"run-{number}") for number in range(3)))
    claimed.sort(key=lambda publisher: publisher.last.term)
    terms = [publisher.last.term for publisher in claimed]  # a claim that is superseded at once is lost by its run
    assert terms == sorted(set(terms))
    *losers, winner = claimed
    for loser in losers:
        with pytest.raises(TermLostError):
            loser.publish(batch(9), NOW)
    winner.publish(batch(0), NOW)
    assert_shows_exactly(root, 0)
    rows = Registry(root).read(lambda snapshots: snapshots.readable())
    assert [row.epoch for row in rows] == list(range(rows[0].epoch, 0, -1))
    assert sorted({row.term for row in rows}) == list(range(1, winner.last.term + 1))


def test_a_store_that_ignores_conditions_is_refused_at_each_start(tmp_path):
    with S3Server(tmp_path, "--without-conditions") as careless:
        root = careless.root()
        for _ in range(3):
            with pytest.raises(NamesrvError, match=r"ignores conditional writes .*dynamodb"):
                writer_of(root)


def test_a_bucket_that_is_not_there_is_one_message(s3):
    nowhere = Root("s3a://nowhere/registry", s3.storage_options)
    with (
        pytest.raises(StorageError, match=r"delta\.storage\.\*, that the bucket exists") as raised,
        storage_errors(NamesrvSettings(delta_root=nowhere.url)),
    ):
        writer_of(nowhere)
    assert "room" not in str(raised.value)


def test_a_store_that_does_not_answer_is_one_line_and_the_same_at_each_attempt(s3, nobody):
    away = {**s3.storage_options, "aws_endpoint_url": f"http://{nobody}", "max_retries": "1"}
    said = set()
    for _ in range(2):
        with pytest.raises(StorageError) as raised:
            Registry(Root("s3a://routes/registry", away)).newest()
        said.add(str(raised.value))
    [line] = said
    assert "Connection refused" in line
    assert "\n" not in line
    assert "\x1b" not in line


EPOCHS = 60
"""One takes 13 s, most of it pauses of delta-rs before it tries again: 200 do not end within an hour."""


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_of_lost_answers_and_needless_refusals_no_epoch_comes_twice_no_run_ends_and_each_change_is_there_once(tmp_path):
    with S3Server(tmp_path, "--unreliable") as store:
        root = store.root()
        publisher = claim(root)
        rows = [publisher.publish(batch(number), NOW) for number in range(EPOCHS)]
        assert [row.epoch for row in rows] == list(range(2, EPOCHS + 2))
        assert min(store.fates["lost"], store.fates["refused"]) > EPOCHS
        reader = Registry(root.url, root.storage_options)
        rows = reader.read(lambda snapshots: snapshots.readable())
        assert [row.epoch for row in rows] == list(range(EPOCHS + 1, 0, -1))
        events = rows_of(root, "broker_event")
        assert_shows_exactly(root, *range(EPOCHS))
    assert Counter(event.broker_addr for event in events) == {f"batch-{number}": 1 for number in range(EPOCHS)}
