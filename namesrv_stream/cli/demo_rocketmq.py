"""`demo-rocketmq`: a real broker and the Java client, with the registry as their name server."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import click
from rich.rule import Rule

from namesrv_stream.cli.demo import SceneFailedError
from namesrv_stream.cli.entry import main
from namesrv_stream.cli.output import console
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.local.rocketmq import LocalServer, broker, java_client, mqadmin
from namesrv_stream.local.stack import LocalStack
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.tables.reader import RouteReader

TOPIC = "Orders"
MESSAGES = 100
_SCENE_LIMIT_S = 120.0
_LOOK_EVERY_S = 0.2


@click.command("demo-rocketmq")
@click.option("--data", type=click.Path(path_type=Path), default=Path("data/demo-rocketmq"), show_default=True)
def demo_rocketmq(data: Path) -> None:
    """A real RocketMQ 5.4.0 broker registers here, messages go through our routes, the broker dies. Two minutes."""
    root = str(data / "registry")
    settings = NamesrvSettings.model_validate({"delta.root": root, "listenPort": 0, "kvConfigPath": ""})
    output = console()
    with ExitStack() as open_things:
        with output.status("Starting Kafka, Spark and the gateway ..."):
            stack = open_things.enter_context(LocalStack(settings, data, clear=True))
        with output.status("Starting RocketMQ's broker ..."):
            real = open_things.enter_context(broker(data / "broker", stack.gateway.address, "broker-a"))
        _Scenes(data, stack, real).play()


class _Scenes:
    """The scenes, in order. What is shown is what RocketMQ's own tools and our command line say."""

    def __init__(self, data: Path, stack: LocalStack, real: LocalServer) -> None:
        self._data = data
        self._stack = stack
        self._broker = real
        self._reader = RouteReader(stack.settings.delta_root)
        self._output = console()

    def play(self) -> None:
        """All of it."""
        namesrv = self._stack.gateway.address
        self._scene(f"A RocketMQ 5.4.0 broker has namesrvAddr={namesrv} and registers")
        self._until("it is in the tables", lambda tables: self._broker.address in tables.live)
        self._mqadmin("clusterList")
        self._scene(f"mqadmin makes the topic {TOPIC}")
        self._mqadmin("updateTopic", "-c", "RealCluster", "-t", TOPIC)
        self._until("its route is published", lambda tables: TOPIC in tables.queues)
        self._scene("RocketMQ's Java client sends and receives through that route")
        self._send_and_receive(namesrv)
        self._scene("kill -9 of the broker: its connection to the gateway closes")
        self._broker.kill()
        self._until("its route is gone", lambda tables: TOPIC not in tables.queues)
        self._mqadmin("topicRoute", "-t", TOPIC)
        self._scene("What happened, and why")
        main.main(["--root", self._stack.settings.delta_root, "history"], standalone_mode=False)

    def _send_and_receive(self, namesrv: str) -> None:
        bodies = [f"message {number}" for number in range(MESSAGES)]
        with java_client(self._data / "client", namesrv) as client:
            client.send(TOPIC, bodies)
            received = client.receive(TOPIC, MESSAGES)
        self._output.print(f"{len(bodies)} messages sent, {len(set(received) & set(bodies))} of them received")

    def _mqadmin(self, *arguments: str) -> None:
        self._output.print(f"[dim]$ mqadmin[/] [bold]{' '.join(arguments)}[/]")
        said = mqadmin(self._data / "mqadmin", self._stack.gateway.address, *arguments)
        told = [line for line in said.strip().splitlines() if not line.startswith("\tat ")]  # no Java stack
        self._output.print("\n".join(told[:8]), markup=False, highlight=False)

    def _scene(self, title: str) -> None:
        self._output.print()
        self._output.print(Rule(title, align="left"))

    def _until(self, what: str, condition: Callable[[RouteTables], bool]) -> None:
        started_s = time.monotonic()
        with self._output.status(f"until {what} ..."):
            while not condition(self._reader.follow().routes):
                self._stack.job.check()
                if time.monotonic() - started_s > _SCENE_LIMIT_S:
                    raise SceneFailedError(what, _SCENE_LIMIT_S)
                time.sleep(_LOOK_EVERY_S)
        self._output.print(f"[green]{what}[/] after {time.monotonic() - started_s:.1f} s")
