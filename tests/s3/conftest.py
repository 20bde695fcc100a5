"""An S3 server for all tests of object stores, and an empty place on it for each."""

import os
import sys
import uuid

import boto3
import pytest

from namesrv_stream.local.jars import CHECKOUT
from namesrv_stream.local.ports import HOST, free_ports, listens
from namesrv_stream.local.server import OwnedServer
from namesrv_stream.tables.root import Root

BUCKET = "routes"


class S3Server(OwnedServer):
    """moto's, with one bucket."""

    name = "the S3 server"

    def __init__(self, folder, *options):
        super().__init__(folder / "s3.log")
        self._port = free_ports(1)
        self._options = options

    def start(self):
        command = [sys.executable, CHECKOUT / "tests" / "s3" / "server.py", str(self._port), *self._options]
        self._run(command, lambda: listens(self._port), 120)
        self._client().create_bucket(Bucket=BUCKET)
        return self

    def objects(self, root):
        """Name to content's hash of all below a root that has few."""
        prefix = root.url.removeprefix(f"s3a://{BUCKET}/")
        listed = self._client().list_objects_v2(Bucket=BUCKET, Prefix=prefix)
        return {each["Key"]: each["ETag"] for each in listed.get("Contents", ())}

    def _client(self):
        credentials = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
        return boto3.client("s3", endpoint_url=f"http://{HOST}:{self._port}", **credentials)

    @property
    def storage_options(self):
        """All that a user gives, as `delta.storage.*`."""
        return {
            "aws_access_key_id": "key",
            "aws_secret_access_key": "secret",
            "aws_region": "us-east-1",
            "aws_endpoint_url": f"http://{HOST}:{self._port}",
            "aws_allow_http": "true",
        }

    def root(self):
        """A root in the bucket, without tables."""
        return Root(f"s3a://{BUCKET}/{uuid.uuid4().hex[:12]}/registry", self.storage_options)


@pytest.fixture(scope="session", autouse=True)
def no_credentials_but_those_given():
    """Neither delta-rs nor Hadoop finds any elsewhere."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]


@pytest.fixture(scope="session")
def s3(tmp_path_factory):
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def root(s3):
    return s3.root()
