"""Credentials are given once: what delta-rs takes, Hadoop's S3A gets by its own names."""

import pytest

from namesrv_stream.config.values import is_object_store, s3a_options

KEYS = {"aws_access_key_id": "id", "aws_secret_access_key": "hidden-key"}
SIMPLE = {
    "access.key": "id",
    "secret.key": "hidden-key",
    "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
}


def options_of_bucket(storage_options, environ=None, bucket="routes"):
    """Without what every bucket gets."""
    options = s3a_options(f"s3a://{bucket}/registry", storage_options, environ or {})
    prefix = f"fs.s3a.bucket.{bucket}."
    assert all(key.startswith(prefix) for key in options), "another bucket keeps its own settings"
    short = {key.removeprefix(prefix): text for key, text in options.items()}
    assert short.pop("input.stream.type") == "classic"
    return short


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("data/registry", False),
        ("/srv/registry", False),
        ("file:///srv/registry", False),
        ("hdfs://namenode/registry", False),
        ("s3://bucket/registry", True),
        ("S3A://bucket/registry", True),
        ("gs://bucket/registry", True),
        ("abfss://box@account.dfs.core.windows.net/registry", True),
        ("oss://bucket/registry", True),
    ],
)
def test_all_but_folders_and_hadoops_file_systems_are_object_stores(url, expected):
    assert is_object_store(url) == expected


@pytest.mark.parametrize(
    "options",
    [
        KEYS,
        {"access_key_id": "id", "secret_access_key": "hidden-key"},
        {key.upper(): text for key, text in KEYS.items()},
    ],
    ids=["with prefix", "without", "as in the environment"],
)
def test_keys_reach_s3a_by_each_of_delta_rs_names(options):
    assert options_of_bucket(options) == SIMPLE


@pytest.mark.parametrize("name", ["aws_session_token", "aws_token", "session_token"])
def test_temporary_credentials_bring_their_token(name):
    assert options_of_bucket({**KEYS, name: "token"}) == SIMPLE | {
        "session.token": "token",
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
    }


def test_the_environment_counts_where_no_setting_does():
    environ = {"AWS_ACCESS_KEY_ID": "of the environment", "AWS_SECRET_ACCESS_KEY": "hidden-key", "HOME": "/root"}
    assert options_of_bucket({"access_key_id": "id"}, environ) == SIMPLE


def test_without_any_credentials_s3a_looks_for_them_as_it_is_set_up():
    assert options_of_bucket({}) == {}
    assert options_of_bucket({"aws_region": "eu-west-1"}) == {"endpoint.region": "eu-west-1"}


def test_the_region_wins_over_the_default_region():
    said = {"aws_region": "eu-west-1", "aws_default_region": "us-west-2"}
    assert options_of_bucket(said)["endpoint.region"] == "eu-west-1"


def test_an_endpoint_has_the_bucket_in_its_paths_as_delta_rs_has_it():
    assert options_of_bucket({"aws_endpoint_url": "http://127.0.0.1:9000"}) == {
        "endpoint": "http://127.0.0.1:9000",
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
    }


def test_of_an_endpoint_that_names_the_bucket_s3a_puts_it_there_itself():
    said = {"aws_endpoint": "https://routes.store.example", "aws_virtual_hosted_style_request": "true"}
    assert options_of_bucket(said) == {
        "endpoint": "https://store.example",
        "endpoint.region": "us-east-1",
        "path.style.access": "false",
    }


def test_an_open_bucket_is_read_without_a_signature():
    anonymous = {"aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"}
    assert options_of_bucket({"aws_skip_signature": "true"}) == anonymous


@pytest.mark.parametrize("url", ["gs://bucket/registry", "/srv/registry", "hdfs://namenode/registry"])
def test_storage_other_than_s3_gets_nothing(url):
    assert s3a_options(url, KEYS, {"AWS_REGION": "eu"}) == {}
