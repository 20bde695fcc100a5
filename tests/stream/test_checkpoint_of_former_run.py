"""The checkpoint of a former run: what is refused, what is removed, and what is gone on with."""

import json
from pathlib import Path

import pytest

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.stream.checkpoint import STATE_STORE, Checkpoint, StateStoreMismatchError, set_up_checkpoint
from namesrv_stream.stream.failures import CheckpointStorageError, storage_errors

ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


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
        (Path(checkpoint.location) / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
        return checkpoint

    return write


@pytest.mark.parametrize(("key", "found"), [(ENCODING, "unsaferow"), (PROVIDER, "org.example.OtherProvider")])
def test_a_checkpoint_with_state_in_another_form_is_refused_with_the_way_out(written, key, found):
    checkpoint = written(STATE_STORE | {key: found})
    with pytest.raises(StateStoreMismatchError, match=rf"{found}.*Remove that folder and start again") as refused:
        checkpoint.make_ready()
    assert (refused.value.location, refused.value.key) == (checkpoint.location, key)


@pytest.mark.parametrize("conf", [STATE_STORE, {}], ids=["the same form", "written down by no release of Spark"])
def test_a_checkpoint_with_state_in_the_same_form_is_taken(written, conf):
    written(conf).make_ready()


def test_a_file_in_the_place_of_the_checkpoint_is_named_with_its_setting(spark, tmp_path):
    (tmp_path / "file").touch()
    settings = NamesrvSettings(checkpoint_location=str(tmp_path / "file"))
    with (
        pytest.raises(CheckpointStorageError, match=r"Is checkpoint\.location right") as refused,
        storage_errors(settings),
    ):
        Checkpoint(spark, settings.checkpoint_location, "topic-id").make_ready()
    assert refused.value.root == settings.checkpoint_location
    assert "at org.apache" not in str(refused.value)


@pytest.mark.parametrize(("oldest_offset", "is_kept"), [(5, True), (6, False)])
def test_a_checkpoint_that_goes_on_before_the_oldest_record_is_removed(written, oldest_offset, is_kept):
    checkpoint = written(STATE_STORE)
    checkpoint.remove_if_unusable("heartbeats", oldest_offset)
    assert Path(checkpoint.location).exists() == is_kept


@pytest.mark.parametrize(
    "left", [None, "", "v1", 'v1\n{"batchWatermarkMs":0', 'v1\n{}\n{"heartbeats":{"0":', "v1\n{}\n5"]
)
def test_a_checkpoint_that_a_full_disk_has_cut_off_is_removed(written, left):
    checkpoint = written(STATE_STORE)
    file = Path(checkpoint.location) / "offsets" / "0"
    file.with_name(".0.crc").unlink(missing_ok=True)
    file.unlink() if left is None else file.write_text(left)
    checkpoint.make_ready()
    checkpoint.remove_if_unusable("heartbeats", 0)
    assert not Path(checkpoint.location).exists()


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
