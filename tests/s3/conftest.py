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

    def root(self, port=None):
        """A root in the bucket, without tables. `port`: that of a proxy before the server."""
        options = self.storage_options | ({"aws_endpoint_url": f"http://{HOST}:{port}"} if port else {})
        return Root(f"s3a://{self._bucket}/{uuid.uuid4().hex[:12]}/registry", options)

    @property
    def port(self):
        return self._port


class UnreliableProxy(OwnedServer):
    """unreliable.py before a server."""

    name = "the unreliable proxy"

    def __init__(self, folder, server):
        super().__init__(folder / "proxy.log")
        self.port = free_ports(1)
        self._server = server

    def start(self):
        program = CHECKOUT / "tests" / "s3" / "unreliable.py"
        self._run([sys.executable, program, str(self.port), str(self._server.port)], lambda: listens(self.port), 120)
        return self

    @property
    def fates(self):
        with urllib.request.urlopen(f"http://{HOST}:{self.port}/fates", timeout=60) as answer:
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


@pytest.fixture(scope="session")
def real_s3(tmp_path_factory):
    with RealS3Server(tmp_path_factory.mktemp("real-s3")) as server:
        yield server


@pytest.fixture(scope="session", params=["moto", pytest.param("versitygw", marks=pytest.mark.full)])
def s3(request, tmp_path_factory):
    if request.param == "versitygw":
        yield request.getfixturevalue("real_s3")
        return
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def root(s3):
    return s3.root()
