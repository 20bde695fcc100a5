"""The encoding of the kept state: a checkpoint that was written in another way is refused, not misread."""

import json

import pytest

from namesrv_stream.stream.checkpoint import STATE_STORE, Checkpoint, StateStoreMismatchError, set_up_state_store

ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


@pytest.fixture
def written(spark, tmp_path):
    """Make a checkpoint whose only planned batch has these settings."""

    def write(conf):
        checkpoint = Checkpoint(spark, str(tmp_path), "topic-id")
        offsets = tmp_path / checkpoint.location.removeprefix(f"{tmp_path}/") / "offsets"
        offsets.mkdir(parents=True)
        metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": conf}
        (offsets / "0").write_text(f'v1\n{json.dumps(metadata)}\n{{"heartbeats":{{"0":5}}}}')
        return checkpoint

    return write


@pytest.mark.parametrize(("key", "found"), [(ENCODING, "unsaferow"), (PROVIDER, "org.example.OtherProvider")])
def test_a_checkpoint_with_state_in_another_form_is_refused_with_the_way_out(written, key, found):
    checkpoint = written(STATE_STORE | {key: found})
    with pytest.raises(StateStoreMismatchError, match=rf"{found}.*Remove that folder and start again") as refused:
        checkpoint.check_state_store()
    assert (refused.value.location, refused.value.key) == (checkpoint.location, key)


@pytest.mark.parametrize("conf", [STATE_STORE, {}], ids=["the same form", "written down by no release of Spark"])
def test_a_checkpoint_with_state_in_the_same_form_is_taken(written, conf):
    written(conf).check_state_store()


def test_a_conf_file_does_not_decide_how_state_is_kept(spark):
    session = spark.newSession()
    session.conf.set(ENCODING, "unsaferow")
    set_up_state_store(session)
    assert {key: session.conf.get(key) for key in STATE_STORE} == STATE_STORE
