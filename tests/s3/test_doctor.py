"""doctor tries a checkpoint on an object store with the credentials of the settings."""

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.tools.doctor.storage_checks import check_checkpoint


def findings(root, location):
    options = {f"delta.storage.{name}": value for name, value in root.storage_options.items()}
    return list(check_checkpoint(NamesrvSettings.model_validate({"checkpoint.location": location} | options)))


def test_a_checkpoint_that_can_be_written_is_left_as_it_was(s3, root):
    [found] = findings(root, f"{root.url}-checkpoint")
    assert (found.check, found.state) == ("checkpoint", "ok")
    assert s3.objects(root) == {}


def test_a_bucket_that_is_not_there_has_failed_with_what_to_do(root):
    [found] = findings(root, "s3a://no-such-bucket/checkpoint")
    assert (found.state, "checkpoint.location" in found.next_step) == ("failed", True)
