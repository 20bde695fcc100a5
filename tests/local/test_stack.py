"""The stack notices that one of its threads has died. No Kafka or Spark here."""

import contextlib

import pytest

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError, TermLostError
from namesrv_stream.gateway.background_gateway import BackgroundGateway
from namesrv_stream.job.background_job import BackgroundJob
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshot_reader import RouteReader
from namesrv_stream.tools.backup_file import content_of
from namesrv_stream.tools.fleet.plan import FleetPlan
from namesrv_stream.tools.local.stack import LocalStack
from namesrv_stream.tools.putting_back import restore_content
from tests.cli.registry import PublishedRegistry
from tests.faulty import FaultyProducer, UnforeseenError
from tests.waiting import eventually

LIMIT_S = 30


class MortalGateway(BackgroundGateway):
    def die(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()


class ReplacedJob(BackgroundJob):
    def check(self):
        raise TermLostError(1, 2, "run-2")


class MortalStack(LocalStack):
    job_starts = 0

    def _restart_job(self):
        self.job_starts += 1
        self.job = BackgroundJob(None, self.settings)

    def start_dying_fleet(self):
        """Return when the fleet has died. The end of the stack does not stop it: that would wait for Kafka."""
        self._producer = FaultyProducer()
        fleet = self.start_fleet(FleetPlan(brokers=1, topics=1))
        self._open_things.pop_all()

        @eventually
        def has_died():
            with contextlib.suppress(UnforeseenError):
                fleet.check()
                raise AssertionError("the fleet lives")

        has_died()


def test_a_port_that_is_taken_ends_a_start_before_anything_is_started(tmp_path, nobody):
    taken = int(nobody.rpartition(":")[2])
    for options in ({"job_metrics_port": taken, "listen_port": 0}, {"listen_port": taken}):
        settings = NamesrvSettings(delta_root=str(tmp_path / "registry"), bind_address="127.0.0.1", **options)
        with (
            pytest.raises(NamesrvError, match=rf"{taken}.*(job\.metricsPort|listenPort)"),
            LocalStack(settings, tmp_path),
        ):
            pass
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def stack(tmp_path, nobody):
    """A stack whose gateway runs and whose job has not begun."""
    given = {"delta.root": str(tmp_path / "registry"), "listenPort": 0, "kvConfigPath": ""}
    given["kafka.bootstrap.servers"] = nobody
    PublishedRegistry(given["delta.root"], 1)  # for which a gateway would wait
    settings = NamesrvSettings.model_validate(given)
    stack = MortalStack(settings, tmp_path)
    stack.job = BackgroundJob(None, settings)
    stack.gateway = MortalGateway(settings).__enter__()
    yield stack
    stack.gateway.__exit__(UnforeseenError, UnforeseenError(), None)


def test_a_stack_whose_parts_run_raises_nothing(stack):
    stack.check()


def test_a_job_that_a_restore_has_replaced_starts_again_once_that_has_ended(stack):
    stack.job = ReplacedJob(None, stack.settings)
    stack.check()
    assert stack.job_starts == 0
    root = Root(stack.settings.delta_root)
    restore_content(root, stack.settings, content_of(RouteReader(root)), "ann", takes_over=True)
    stack.check()
    stack.check()
    assert stack.job_starts == 1


def test_a_part_that_died_last_is_raised_when_the_stack_ends(stack):
    stack.start_dying_fleet()
    with pytest.raises(UnforeseenError):
        stack.__exit__(None, None, None)


def test_a_gateway_that_died_is_raised_at_its_end_unless_another_error_ends_it(stack):
    stack.gateway.die()
    with pytest.raises(RuntimeError, match="stopped before"):
        stack.gateway.__exit__(None, None, None)
    stack.gateway.__exit__(KeyError, KeyError(), None)
