"""The stack notices that one of its threads has died. No Kafka or Spark here."""

import contextlib
from unittest.mock import Mock

import pytest

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError, TermLostError
from namesrv_stream.gateway.launch import BackgroundGateway
from namesrv_stream.job.background_job import BackgroundJob
from namesrv_stream.tools.fleet.broker import FleetPlan
from namesrv_stream.tools.local.process import ServerEndedError
from namesrv_stream.tools.local.stack import LocalStack
from tests.faulty import FaultyProducer, UnforeseenError
from tests.registry import PublishedRegistry
from tests.waiting import eventually

LIMIT_S = 30


class MortalGateway(BackgroundGateway):
    def die(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()


class MortalStack(LocalStack):
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


def test_a_job_that_another_one_has_replaced_is_no_error(stack):
    stack.job = Mock(check=Mock(side_effect=TermLostError(1, 2, "run-2")))
    stack.check()


def test_a_dead_jvm_is_named_with_the_last_lines_of_its_log_and_where_that_is(stack, tmp_path):
    (tmp_path / "spark.log").write_text("out of memory\n")
    stack.job = Mock(check=Mock(side_effect=ConnectionError("the JVM does not answer")))
    lines = rf"The last lines of {tmp_path}/spark.log:\nout of"
    with pytest.raises(ServerEndedError, match=rf"Spark lost its JVM.*No record is lost.* {lines}"):
        stack.check()


def test_a_part_that_died_last_is_raised_when_the_stack_ends(stack):
    stack.start_dying_fleet()
    with pytest.raises(UnforeseenError):
        stack.__exit__(None, None, None)


def test_a_gateway_that_died_is_raised_at_its_end_unless_another_error_ends_it(stack):
    stack.gateway.die()
    with pytest.raises(RuntimeError, match="stopped before"):
        stack.gateway.__exit__(None, None, None)
    stack.gateway.__exit__(KeyError, KeyError(), None)
