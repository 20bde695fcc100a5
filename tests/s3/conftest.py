"""S3 servers for all tests of object stores, and an empty place on them for each.

moto serves all tests; those of `make test-full` run on versitygw besides, a real S3 server, which that target builds.
"""

import json
import os
import sys
import urllib.request
import uuid

import boto3
import pytest

from namesrv_stream.tables.root import Root
from namesrv_stream.tools.local.jars import CHECKOUT
from namesrv_stream.tools.local.process import HOST, OwnedServer, free_ports, listens

VERSITYGW = CHECKOUT / ".cache" / "s3" / "versitygw"


class S3Server(OwnedServer):
    """moto's, with one bucket."""

    name = "the S3 server"

    def __init__(self, folder, *options):
        super().__init__(folder / "s3.log")
        self._port = free_ports(1)
        self._bucket = f"routes-{self._port}"  # Hadoop keeps its client of a bucket, also after the server has ended
        self._options = options

    def start(self):
        self._run(self._command(), lambda: listens(self._port), 120)
        self._client().create_bucket(Bucket=self._bucket)
        return self

    def _command(self):
        return [sys.executable, CHECKOUT / "tests" / "s3" / "server.py", str(self._port), *self._options]

    def objects(self, root):
        """Name to content's hash of all below a root that has few."""
        prefix = root.url.removeprefix(f"s3a://{self._bucket}/")
        listed = self._client().list_objects_v2(Bucket=self._bucket, Prefix=prefix)
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
        return Root(f"s3a://{self._bucket}/{uuid.uuid4().hex[:12]}/registry", self.storage_options)

    @property
    def fates(self):
        """How many commits an unreliable server has lost, refused and passed."""
        with urllib.request.urlopen(f"http://{HOST}:{self._port}/fates", timeout=60) as answer:
            return json.load(answer)


class RealS3Server(S3Server):
    """versitygw, on a folder whose file system has extended attributes."""

    def __init__(self, folder):
        super().__init__(folder)
        self._folder = folder / "buckets"
        self._folder.mkdir()

    def _command(self):
        assert VERSITYGW.exists(), f"{VERSITYGW} is not there: make test-full builds it"
        where = ["--port", f"{HOST}:{self._port}", "--access", "key", "--secret", "secret", "--region", "us-east-1"]
        return [VERSITYGW, *where, "posix", self._folder]


@pytest.fixture(scope="session", autouse=True)
def no_credentials_but_those_given():
    """Neither delta-rs nor Hadoop finds any elsewhere."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]


@pytest.fixture(
    scope="session", params=[S3Server, pytest.param(RealS3Server, marks=pytest.mark.full)], ids=["moto", "versitygw"]
)
def s3(request, tmp_path_factory):
    with request.param(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def root(s3):
    return s3.root()
