"""The checkpoint of a former run: what is put aside, and what is gone on with."""

import json
from pathlib import Path

import pytest

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import StorageError
from namesrv_stream.job.checkpoint import STATE_STORE, Checkpoint, set_up_checkpoint
from namesrv_stream.job.failures import storage_errors

ENCODING = "spark.sql.streaming.stateStore.encodingFormat"


@pytest.fixture
def written(spark, tmp_path):
    """Make a checkpoint whose only planned batch has these settings."""

    def write(conf):
        checkpoint = Checkpoint(spark, str(tmp_path), "topic-id")
        for folder in (Path(checkpoint.location) / name for name in ("offsets", "commits")):
            folder.mkdir(parents=True)
        metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": conf}
        (Path(checkpoint.location) / "offsets" / "0").write_text(
            f'v1\n{json.dumps(metadata)}\n{{"heartbeats":{{"0":5}}}}'
        )
        (Path(checkpoint.location) / "metadata").write_text('{"id":"query"}')
        (Path(checkpoint.location) / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
        return checkpoint

    return write


def test_a_file_in_the_place_of_the_checkpoint_is_named_with_its_setting(spark, tmp_path):
    (tmp_path / "file").touch()
    settings = NamesrvSettings(checkpoint_location=str(tmp_path / "file"))
    with (
        pytest.raises(StorageError, match=r"Check checkpoint\.location") as refused,
        storage_errors(settings),
    ):
        Checkpoint(spark, settings.checkpoint_location, "topic-id").make_base()
    assert refused.value.root == settings.checkpoint_location
    assert "at org.apache" not in str(refused.value)


def is_put_aside(checkpoint):
    folder, aside = Path(checkpoint.location), Path(f"{checkpoint.location}.aside")
    assert folder.exists() != aside.exists()
    return aside.exists()


@pytest.mark.parametrize(("oldest_offset", "is_kept"), [(5, True), (6, False)])
def test_a_checkpoint_that_goes_on_before_the_oldest_record_is_put_aside(written, caplog, oldest_offset, is_kept):
    checkpoint = written(STATE_STORE)
    checkpoint.make_ready("heartbeats", oldest_offset)
    assert is_put_aside(checkpoint) != is_kept
    assert ("it continues before offset 6, the oldest in Kafka" in caplog.text) != is_kept


@pytest.mark.parametrize(
    ("name", "left"),
    [
        *(("offsets/0", left) for left in (None, "", "v1", 'v1\n{"batchWatermarkMs":0', "v1\n{}\n5")),
        ("offsets/0", 'v1\n{}\n{"heartbeats":{"0":'),
        ("metadata", None),  # the checkpoint was removed under a running query, which goes on writing what it commits
        ("metadata", ""),
    ],
)
def test_a_checkpoint_that_is_damaged_as_by_a_full_disk_is_put_aside(written, caplog, name, left):
    checkpoint = written(STATE_STORE)
    file = Path(checkpoint.location) / name
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    file.unlink() if left is None else file.write_text(left)
    checkpoint.make_ready("heartbeats", 0)
    assert is_put_aside(checkpoint)
    assert ("its file `metadata` is missing" in caplog.text) == (name == "metadata" and left is None)


def test_a_checkpoint_without_batches_whose_metadata_a_full_disk_left_empty_is_put_aside(written):
    checkpoint = written(STATE_STORE)
    for name in (".metadata.crc", "offsets/0", "commits/0"):
        (Path(checkpoint.location) / name).unlink(missing_ok=True)
    (Path(checkpoint.location) / "metadata").write_text("")
    checkpoint.make_ready("heartbeats", 0)
    assert is_put_aside(checkpoint)


def test_a_checkpoint_without_tables_is_put_aside_and_delta_root_is_named(written, caplog):
    checkpoint = written(STATE_STORE)
    checkpoint.make_ready("heartbeats", 0, are_tables_empty=True)
    assert is_put_aside(checkpoint)
    assert "check delta.root" in caplog.text


def test_a_conf_file_does_not_decide_how_state_is_kept(spark):
    session = spark.newSession()
    session.conf.set(ENCODING, "unsaferow")
    set_up_checkpoint(session, "/data/checkpoint")
    assert {key: session.conf.get(key) for key in STATE_STORE} == STATE_STORE


@pytest.mark.parametrize(
    ("location", "is_local"),
    [
        ("/data/checkpoint", True),
        ("checkpoint of a user", True),
        ("file:///shared/checkpoint", True),
        ("hdfs://node/checkpoint", False),
        ("s3a://bucket/checkpoint", False),
    ],
)
def test_a_checkpoint_on_a_local_disk_alone_is_written_without_hadoops_file_context(spark, location, is_local):
    session = spark.newSession()
    set_up_checkpoint(session, location)
    manager = session.conf.get("spark.sql.streaming.checkpointFileManagerClass", None)
    assert (manager is not None) == is_local
