"""Decide where tables and checkpoint may be, and translate the `delta.storage.*` settings for Hadoop's S3A.

delta-rs itself reads these settings and the environment of AWS's own tools. Spark gets the same values from here, so
that credentials are given only once.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

_FILE_SYSTEMS = frozenset({"file", "hdfs", "viewfs"})
_S3_SCHEMES = frozenset({"s3", "s3a"})
_DEFAULT_REGION = "us-east-1"
"""The region that delta-rs takes if none is given."""

_S3A_NAMES = {
    "access_key_id": "access.key",
    "secret_access_key": "secret.key",
    "token": "session.token",
    "session_token": "session.token",
    "endpoint": "endpoint",
    "endpoint_url": "endpoint",
    "endpoint_url_s3": "endpoint",
    "default_region": "endpoint.region",
    "region": "endpoint.region",
}
"""delta-rs's name without `aws_` to S3A's. If both name the same option, the later one wins."""

_PROVIDERS = "org.apache.hadoop.fs.s3a"


def is_object_store(url: str) -> bool:
    """Return whether the place is an object store: no folder and no Hadoop file system, so it has no rename."""
    scheme, separator, _ = url.partition("://")
    return bool(separator) and scheme.lower() not in _FILE_SYSTEMS


def default_checkpoint(root: str) -> str:
    """Return the default checkpoint: beside the tables, or on this machine if they are in an object store.

    A checkpoint only saves work. In an object store its small files would be several requests a batch, each with a
    delay and a price.
    """
    url = root.rstrip("/")
    beside = f"data/{url.partition('://')[2]}" if is_object_store(url) else url
    return f"{beside}-checkpoint"


def default_temp_folder(checkpoint: str) -> str:
    """Return the default place of the job's temporary files: beside a checkpoint of this machine."""
    path = re.sub("^file:(//)?", "", checkpoint).rstrip("/")
    return str(Path(tempfile.gettempdir(), "namesrv-stream")) if "://" in path else f"{path}-tmp"


def s3a_options(url: str, storage_options: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return Hadoop's options for the bucket of `url` alone; none for storage other than S3.

    `storage_options` win over `environ`, as in delta-rs. An option that neither has is left to S3A's own settings.
    """
    scheme, _, place = url.partition("://")
    if scheme.lower() not in _S3_SCHEMES:
        return {}
    bucket = place.partition("/")[0]
    given = _without_prefix({name: text for name, text in environ.items() if name.startswith("AWS_")})
    given |= _without_prefix(storage_options)
    options = {s3a: given[name] for name, s3a in _S3A_NAMES.items() if given.get(name)}
    options |= _credentials_provider(options, given) | _addressing(options, given, bucket)
    options["input.stream.type"] = "classic"  # S3A's default, analytics, needs jars that conf/ivy.xml leaves out
    return {f"fs.s3a.bucket.{bucket}.{name}": text for name, text in options.items()}


def _without_prefix(options: Mapping[str, str]) -> dict[str, str]:
    return {name.lower().removeprefix("aws_"): text for name, text in options.items()}


def _credentials_provider(options: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    if given.get("skip_signature", "").lower() == "true":
        return {"aws.credentials.provider": f"{_PROVIDERS}.AnonymousAWSCredentialsProvider"}
    if "access.key" not in options:
        return {}
    kind = "Temporary" if "session.token" in options else "Simple"
    return {"aws.credentials.provider": f"{_PROVIDERS}.{kind}AWSCredentialsProvider"}


def _addressing(options: Mapping[str, str], given: Mapping[str, str], bucket: str) -> dict[str, str]:
    """Return how the bucket is addressed at an endpoint other than AWS's: in the path, unless an option differs."""
    if "endpoint" not in options:
        return {}
    is_virtual = given.get("virtual_hosted_style_request", "").lower() == "true"
    endpoint = options["endpoint"]
    if is_virtual:  # delta-rs wants the bucket in the endpoint's name, S3A puts it there itself
        endpoint = endpoint.replace(f"//{bucket}.", "//", 1)
    return {
        "endpoint": endpoint,
        "endpoint.region": options.get("endpoint.region", _DEFAULT_REGION),
        "path.style.access": str(not is_virtual).lower(),
    }
