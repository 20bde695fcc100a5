"""`demo-rocketmq`: a real RocketMQ broker and the Java client use the registry as their name server."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import click

from namesrv_stream.cli.stage import Stage, data_option, open_stage
from namesrv_stream.config import Invocation
from namesrv_stream.local.rocketmq import LocalServer, broker, java_client, mqadmin

TOPIC = "Orders"
MESSAGES = 100
BROKER, CLIENT, MQADMIN = FOLDERS = ("broker", "client", "mqadmin")


@click.command("demo-rocketmq")
@data_option("data/demo-rocketmq", *FOLDERS)
@click.pass_obj
def demo_rocketmq(invocation: Invocation, data: Path) -> None:
    """Register a real RocketMQ 5.4.0 broker here, send messages by its routes, kill the broker. Takes two minutes.

    The demo has its own settings: -c, --root and --set are refused, NAMESRV_* in the environment has no effect.
    """
    with open_stage(invocation, data, *FOLDERS) as stage, ExitStack() as open_things:
        with stage.output.status("Starting RocketMQ's broker ..."):
            real = open_things.enter_context(broker(data / BROKER, stage.stack.gateway.address, "broker-a"))
        _Scenes(data, stage, real).play()
    stage.scene("What is left")
    stage.say(
        f"Broker, gateway, Kafka and Spark are stopped; all tables are in {stage.root}. Go on with these:\n\n"
        f"  .venv/bin/namesrv-stream --root {stage.root} why broker-a\n"
        f"  .venv/bin/namesrv-stream --root {stage.root} snapshots\n\n"
        "or give your own broker a name server on this machine, until Ctrl-C:\n\n"
        "  .venv/bin/namesrv-stream up --brokers 0"
    )


class _Scenes:
    """Scenes of the demo. All output is that of RocketMQ's own tools and of this project's command line."""

    def __init__(self, data: Path, stage: Stage, real: LocalServer) -> None:
        self._data = data
        self._namesrv = stage.stack.gateway.address
        self._broker = real
        self._stage = stage

    def play(self) -> None:
        """Play all scenes in order."""
        stage = self._stage
        stage.scene(f"A RocketMQ 5.4.0 broker has namesrvAddr={self._namesrv} and registers")
        stage.until("it is in the tables", lambda tables: self._broker.address in tables.live)
        self._mqadmin("clusterList")
        stage.scene(f"mqadmin makes the topic {TOPIC}")
        self._mqadmin("updateTopic", "-c", "RealCluster", "-t", TOPIC)
        stage.until("its route is published", lambda tables: TOPIC in tables.queues)
        stage.scene("RocketMQ's Java client sends and receives through that route")
        self._send_and_receive()
        stage.scene("kill -9 of the broker: its connection to the gateway closes")
        self._broker.kill()
        stage.until("its route is gone", lambda tables: TOPIC not in tables.queues)
        stage.say("So the next answer of mqadmin is an error, as it should be:")
        self._mqadmin("topicRoute", "-t", TOPIC)
        stage.scene("What happened, and why")
        stage.run("history")

    def _send_and_receive(self) -> None:
        bodies = [f"message {number}" for number in range(MESSAGES)]
        with java_client(self._data / CLIENT, self._namesrv) as client:
            client.send(TOPIC, bodies)
            received = client.receive(TOPIC, MESSAGES)
        self._stage.output.print(f"{len(bodies)} messages sent, {len(set(received) & set(bodies))} of them received")

    def _mqadmin(self, *arguments: str) -> None:
        self._stage.say_command("mqadmin", *arguments)
        output = mqadmin(self._data / MQADMIN, self._namesrv, *arguments)
        lines = [line for line in output.strip().splitlines() if not line.startswith("\tat ")]  # no Java stack
        self._stage.output.print("\n".join(lines[:8]), markup=False, highlight=False)
