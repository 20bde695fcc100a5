"""Parse the text of a properties file into a value, and print a value as RocketMQ would.

Types are those of RocketMQ's own settings in Java: a boolean is `true` or `false`, an int has 32 bits.

Beside them: where tables and checkpoint may be, and the `delta.storage.*` settings. delta-rs itself reads these and
the environment of AWS's own tools. Spark gets the same values from here, for Hadoop's S3A, so that credentials are
given only once.
"""

from __future__ import annotations

import ipaddress
import os
import re
import tempfile
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

_DURATION_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DURATION = re.compile(r"(\d{1,9})\s*(ms|s|m|h|d)")

_FILE_SYSTEMS = frozenset({"file", "hdfs", "viewfs"})
_S3_SCHEMES = frozenset({"s3", "s3a"})
_DEFAULT_REGION = "us-east-1"
"""The region that delta-rs takes if none is given."""


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("use true or false")
    return text.strip().lower() == "true"


def _whole_number(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text.strip()):
        raise ValueError("use a whole number")
    return int(text)


def parsed_duration(text: str) -> timedelta:
    """Parse `30d`, `720h`, `90m`, `45s` or `500ms`. Raises ValueError with the accepted forms."""
    if not (match := _DURATION.fullmatch(text.strip().lower())):
        raise ValueError("use a number with a unit ms, s, m, h or d, such as 30d or 720h")
    return timedelta(**{_DURATION_UNITS[match[2]]: int(match[1])})


def _parsed_by(parse: Callable[[str], object]) -> BeforeValidator:
    """Return a validator that parses a text, and leaves a value of another type as it is."""
    return BeforeValidator(lambda value: parse(value) if isinstance(value, str) else value)


def _servers(value: str) -> str:
    servers = [each.strip() for each in value.split(",")]
    if not all(re.fullmatch(r"(\[[^\s\]]+\]|[^\s:\[\]]+):\d{1,5}", each) for each in servers):
        raise ValueError("use host:port, or several of them separated by commas")
    return ",".join(servers)


def _networks(value: str) -> str:
    networks = [each.strip() for each in value.split(",") if each.strip()]
    for each in networks:
        ipaddress.ip_network(each, strict=False)  # its ValueError names the text
    return ",".join(networks)


_HOST = re.compile(r"(?:https?://)?([^\s/:@\[\]]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?(?:/.*)?", re.IGNORECASE)
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")


def _hosts(value: str) -> str:
    return ",".join(_host_name(each.strip()) for each in value.split(",") if each.strip())


def _host_name(text: str) -> str:
    """Return the name that browsers send for a host, which may be written as a URL. A dot before it stays.

    Letters beyond ASCII are encoded as browsers do (UTS 46): IDNA of Python's own, of 2003, makes `ss` of an eszett.
    """
    found = _HOST.fullmatch(text)
    host = found[1].strip("[]") if found else text
    with suppress(ValueError):
        return str(ipaddress.ip_address(host))
    name = unicodedata.normalize("NFKC", host.lower()).replace("\u3002", ".").rstrip(".")
    labels = [each if each.isascii() else f"xn--{each.encode('punycode').decode()}" for each in name.split(".")]
    if not all(map(_LABEL.fullmatch, labels[1:] if name.startswith(".") else labels)):
        raise ValueError(
            f"{text!r} is not a host name. Use registry.example.org, or .example.org for a domain and all below it"
        )
    return ".".join(labels)


def _expanded(value: str) -> str:
    """Return a path with the home folder in place of `~`, as it is if this user has none that is known."""
    return os.path.expanduser(value)  # noqa: PTH111 -- that of pathlib raises an error


def _of_a_home(value: str) -> str:
    if value.startswith("~"):
        raise ValueError("the home folder of ~ is unknown. Give the whole path, or set HOME")
    return value


def _readable_by_delta(path: str) -> str:
    """Raise an error for a folder whose name delta-rs takes for another one, or fails on."""
    odd = re.search(r"[%\[\]\\\x00-\x1f\x7f]", str(Path(path).absolute())) if "://" not in path else None
    if odd is not None:
        raise ValueError(
            f"delta-rs finds no tables in a path with {odd[0]!r}, as its whole path has. Use another folder"
        )
    return path


def link_template(*names: str) -> AfterValidator:
    """Return a validator of a URL with placeholders of these names, `{broker}`; an empty text stays empty."""
    accepted = ", ".join(f"{{{name}}}" for name in names)

    def checked(value: str) -> str:
        if value and not re.match(r"https?://[^/{}@\s]+([/?#]|$)", value):  # no name decides where a link leads
            raise ValueError("use a URL that begins with http:// or https:// and a host without placeholders")
        if unknown := set(re.findall(r"\{(.*?)\}", value)) - {*names}:
            raise ValueError(f"unknown placeholder {{{min(unknown)}}}. Use {accepted}")
        return value

    return AfterValidator(checked)


Boolean = Annotated[bool, _parsed_by(_boolean)]
Int = Annotated[int, _parsed_by(_whole_number), Field(ge=-(2**31), le=2**31 - 1)]
Count = Annotated[int, _parsed_by(_whole_number), Field(ge=1, le=2**31 - 1)]
Millis = Annotated[int, _parsed_by(_whole_number), Field(ge=0, le=2**31 - 1)]
Ratio = Annotated[float, Field(ge=0, le=1)]
Port = Annotated[int, _parsed_by(_whole_number), Field(ge=0, le=65_535)]
Duration = Annotated[timedelta, _parsed_by(parsed_duration), Field(gt=timedelta())]
HomeLocation = Annotated[str, AfterValidator(_expanded)]
Location = Annotated[HomeLocation, AfterValidator(_of_a_home)]
TablesLocation = Annotated[Location, AfterValidator(_readable_by_delta)]
Servers = Annotated[str, AfterValidator(_servers)]
Networks = Annotated[str, AfterValidator(_networks)]
Hosts = Annotated[str, AfterValidator(_hosts)]


def java_text(value: object) -> str:
    """Return the value as a properties file has it: `true`, `30d`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, timedelta):
        return _duration_text(value)
    return str(value)


def _duration_text(value: timedelta) -> str:
    millis = value // timedelta(milliseconds=1)
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if millis % size == 0:
            return f"{millis // size}{unit}"
    return f"{millis}ms"


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
