"""One registry has one name, however its root is spelled: jobs that wait for each other have to find each other."""

import pytest

from namesrv_stream.tables.root import Root


@pytest.mark.parametrize("spelled", ["s3://bucket/registry", "s3a://bucket/registry/", "s3a://bucket/registry"])
def test_a_bucket_has_one_name(spelled):
    assert Root(spelled).hadoop_url == "s3a://bucket/registry"


def test_a_folder_has_one_name(tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(tmp_path / "registry")
    monkeypatch.chdir(tmp_path)
    spellings = ["registry", "./registry/", "link", str(tmp_path / "registry")]
    assert {Root(spelled).hadoop_url for spelled in spellings} == {str((tmp_path / "registry").resolve())}
