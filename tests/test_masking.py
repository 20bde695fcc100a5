"""User, password and keys of a storage are in no output: answers, errors, log lines, tracebacks."""

import json
import logging

import pytest
from click.testing import CliRunner

from namesrv_stream.cli.entry import main
from namesrv_stream.config import Invocation, as_options
from namesrv_stream.errors import StorageError, masked
from namesrv_stream.reporting.logs import JsonLine, OneLine

USER, PASSWORD, KEY = "joe", "hun/ter2", "wJalrXUtnFEMI"


ROOT = f"s3a://{USER}:{PASSWORD}@bucket/registry"


@pytest.mark.parametrize(
    "line",
    ["-p", "--debug status --no-kafka", "doctor --tables", "doctor --role gateway --json", "backup /tmp/no", "repair"],
)
@pytest.mark.usefixtures("quickly_away")
def test_no_command_prints_a_secret(nobody, line):
    given = {
        "delta.root": ROOT,
        "delta.storage.aws_endpoint_url": f"http://{USER}:{PASSWORD}@{nobody}",
        "delta.storage.aws_secret_access_key": KEY,
        "delta.storage.max_retries": 0,
        "checkpoint.location": f"s3a://{USER}:{PASSWORD}@bucket/checkpoint",
        "kafka.bootstrap.servers": nobody,
    }
    result = CliRunner().invoke(main, [*as_options(given), *line.split()])
    shown = result.output + repr(result.exception)  # what Python would print with --debug
    assert result.output
    assert PASSWORD not in shown
    assert KEY not in shown


@pytest.mark.parametrize("formatter", [OneLine(), JsonLine()])
def test_no_log_line_has_a_secret_and_no_traceback(formatter):
    Invocation(None, {"delta.storage.aws_secret_access_key": KEY}, {}).settings  # noqa: B018  # loading notes them
    error = StorageError(ROOT, f'Url {{ username: "{USER}", password: Some("{PASSWORD}") }} {KEY}')
    record = logging.LogRecord("l", logging.ERROR, "f", 1, "at %s: %s", (ROOT, error), None)
    record.exc_info = (type(error), error, None)
    line = formatter.format(record)
    assert not [secret for secret in (PASSWORD, KEY) if secret in line]
    assert "s3a://******@bucket/registry" in line


def test_what_is_no_secret_is_shown():
    text = 'GET http://127.0.0.1:9000/bucket by "a@b"'
    assert masked(text) == text
    assert masked(json.dumps({"root": "s3://bucket/x"})) == '{"root": "s3://bucket/x"}'
