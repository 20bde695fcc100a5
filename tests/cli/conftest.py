import shlex
import time

import pytest
from click.testing import CliRunner

from namesrv_stream.cli.entry import main
from namesrv_stream.config import as_options
from tests.clock import now_ms
from tests.registry import PublishedRegistry


@pytest.fixture
def machine_in(monkeypatch):
    """Puts this machine into a time zone."""

    def put(zone):
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield put
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(scope="module")
def claimed(tmp_path_factory):
    """Empty, its run claimed a minute ago. It stays as it is: tests have copies of it."""
    root = tmp_path_factory.mktemp("claimed") / "registry"
    return PublishedRegistry(str(root), now_ms() - 60_000)


@pytest.fixture
def registry(claimed, tmp_path):
    return claimed.copied_to(str(tmp_path / "registry"))


@pytest.fixture
def run(registry):
    """Runs the command line on the registry's tables: arguments as in a shell."""

    def run(line, **settings):
        return CliRunner().invoke(main, ["--root", registry.root, *as_options(settings), *shlex.split(line)])

    return run


@pytest.fixture
def closed_port(nobody, quickly_away):
    """A port on which nobody listens."""
    return int(nobody.rpartition(":")[2])
