"""The stack notices that one of its threads has died. No Kafka or Spark here."""

import pytest

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.fleet.plan import FleetPlan
from namesrv_stream.gateway.background import BackgroundGateway
from namesrv_stream.local.ports import free_ports
from namesrv_stream.local.stack import LocalStack
from namesrv_stream.stream.background import BackgroundJob
from tests.cli.registry import PublishedRegistry
from tests.faulty import FaultyProducer, UnforeseenError

LIMIT_S = 30


@pytest.fixture
def stack(tmp_path):
    """A stack whose gateway runs and whose job has not begun."""
    given = {"delta.root": str(tmp_path / "registry"), "listenPort": 0, "kvConfigPath": ""}
    given["kafka.bootstrap.servers"] = f"127.0.0.1:{free_ports(1)}"
    PublishedRegistry(given["delta.root"], 1)  # for which a gateway would wait
    settings = NamesrvSettings.model_validate(given)
    stack = LocalStack(settings, tmp_path)
    stack.job = BackgroundJob(None, settings)
    stack.gateway = BackgroundGateway(settings).__enter__()
    yield stack
    stack.gateway.__exit__(UnforeseenError, UnforeseenError(), None)


def end_gateway(stack):
    stack.gateway._loop.call_soon_threadsafe(stack.gateway._loop.stop)
    await_end_of(stack.gateway._thread)


def end_fleet(stack, monkeypatch):
    monkeypatch.setattr(stack, "_producer", FaultyProducer(), raising=False)
    stack.start_fleet(FleetPlan(brokers=1, topics=1))
    stack._open_things.pop_all()  # what would stop the fleet waits for Kafka
    await_end_of(stack._fleets[-1]._thread)


def await_end_of(thread):
    thread.join(LIMIT_S)
    assert not thread.is_alive()


def test_a_stack_whose_parts_run_raises_nothing(stack):
    stack.check()


def test_a_gateway_that_died_is_raised(stack):
    end_gateway(stack)
    with pytest.raises(RuntimeError, match="stopped before"):
        stack.check()


def test_a_fleet_that_died_is_raised(stack, monkeypatch):
    end_fleet(stack, monkeypatch)
    with pytest.raises(UnforeseenError):
        stack.check()


def test_a_part_that_died_last_is_raised_when_the_stack_ends(stack, monkeypatch):
    end_fleet(stack, monkeypatch)
    with pytest.raises(UnforeseenError):
        stack.__exit__(None, None, None)


def test_what_died_hides_no_error_that_ends_the_stack(stack, monkeypatch):
    end_fleet(stack, monkeypatch)
    stack.__exit__(KeyError, KeyError(), None)


def test_a_gateway_that_died_is_raised_at_its_end_unless_another_error_ends_it(stack):
    end_gateway(stack)
    with pytest.raises(RuntimeError, match="stopped before"):
        stack.gateway.__exit__(None, None, None)
    stack.gateway.__exit__(KeyError, KeyError(), None)
