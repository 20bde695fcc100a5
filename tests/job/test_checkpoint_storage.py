"""Places for the checkpoint of a job whose tables are in an object store."""

import pytest

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import SettingError
from namesrv_stream.job.checkpoint import require_shared_checkpoint

ON_S3 = {"delta.root": "s3a://bucket/registry"}


def test_executors_on_other_machines_are_not_given_the_folder_of_this_one():
    with pytest.raises(SettingError, match=r"data/bucket/registry-checkpoint is a folder of one machine.*spark://head"):
        require_shared_checkpoint(NamesrvSettings.model_validate(ON_S3), "spark://head:7077")


@pytest.mark.parametrize("location", ["s3a://bucket/checkpoint", "hdfs://node/checkpoint", "file:///shared/checkpoint"])
def test_a_place_that_is_given_by_its_url_is_taken(location):
    settings = NamesrvSettings.model_validate(ON_S3 | {"checkpoint.location": location})
    require_shared_checkpoint(settings, "spark://head:7077")


@pytest.mark.parametrize(("root", "master"), [("s3a://bucket/registry", "local[*]"), ("/shared", "spark://head:7077")])
def test_spark_on_one_machine_and_tables_in_a_folder_need_nothing(root, master):
    require_shared_checkpoint(NamesrvSettings(delta_root=root), master)
