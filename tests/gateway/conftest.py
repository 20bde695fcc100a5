"""Gateways on real tables, with a Kafka that nobody runs: lookups have to do without."""

import asyncio
import gc
import inspect
import logging

import pytest

from namesrv_stream.gateway.launch import BackgroundGateway
from namesrv_stream.rules.record_types import PutKvConfig
from tests.build import settings_of
from tests.gateway.peer import Peer
from tests.gateway.site import Site
from tests.registry import PublishedRegistry

T0 = 1_700_000_000_000
logging.getLogger().addHandler(logging.NullHandler())  # for a gateway's threads between tests, when pytest has none


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a test that is a coroutine in a loop of its own, in which nothing may end in an error that nobody awaits.

    A fixture that gives a class gives such a test an object of it, which is made in the loop.
    """
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    errors = []

    async def in_loop():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        await pyfuncitem.obj(**{name: each() if inspect.isclass(each) else each for name, each in given.items()})
        gc.collect()

    gc.freeze()  # collects what the test leaves, and not what all tests before have
    try:
        asyncio.run(in_loop())
    finally:
        gc.unfreeze()
    assert errors == []
    return True


def gateway_settings(root, nobody, **more):
    return settings_of(root, nobody, **{"listenPort": 0} | more)


@pytest.fixture
def settings(tmp_path, nobody):
    return lambda **more: gateway_settings(str(tmp_path / "registry"), nobody, **more)


@pytest.fixture(scope="session")
def published(tmp_path_factory):
    """A registry that stays as it is: tests that change it have copies."""
    registry = PublishedRegistry(str(tmp_path_factory.mktemp("published") / "registry"), T0)
    registry.register("10.0.0.1:10911", "c1", "broker-a", topics=("TopicA", "Unit"))
    registry.register("10.0.0.2:10911", "c1", "broker-a", 1, enable_acting_master=False)
    registry.register("10.0.0.3:10911", "c2", "broker-b", zone_name="z1", filter_server_list=["10.0.0.9:1"])
    registry.command(PutKvConfig(namespace="ORDER_TOPIC_CONFIG", key="TopicA", value="broker-a:8"))
    return registry


@pytest.fixture
def registry(published, tmp_path):
    return published.copied_to(str(tmp_path / "registry"))


@pytest.fixture(autouse=True, scope="session")
def _patient_here_too(patient_start):
    """Each gateway of these tests waits for its tables."""


@pytest.fixture(scope="module")
def gateway(published, nobody):
    """A gateway for all tests of a module that change nothing. It keeps connections of brokers while Kafka is away."""
    with BackgroundGateway(gateway_settings(published.root, nobody, kafkaAwayMillis=3_600_000)) as running:
        yield running.gateway


@pytest.fixture
def peer(gateway):
    with Peer(gateway.port) as connected:
        yield connected


@pytest.fixture
def own_gateway(registry, settings):
    """A gateway of one test, on a registry of its own."""
    with BackgroundGateway(settings()) as running:
        yield running.gateway


@pytest.fixture
def site():
    return Site
