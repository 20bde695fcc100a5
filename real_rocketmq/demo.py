"""The command `demo-rocketmq`: a real RocketMQ broker and client with the registry as their name server."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import click

from namesrv_stream.cli.on_this_machine import Stage, data_option, open_stage
from namesrv_stream.config import Invocation
from real_rocketmq.servers import LocalServer, broker, mqadmin

TOPIC = "Orders"
BROKER, MQADMIN = FOLDERS = ("broker", "mqadmin")


@click.command("demo-rocketmq")
@data_option("data/demo-rocketmq", *FOLDERS)
@click.pass_obj
def demo_rocketmq(invocation: Invocation, data: Path) -> None:
    """Register a real RocketMQ 5.4.0 broker here, send messages by its routes, kill the broker. Takes two minutes.

    The demo has its own settings: --config, --root and --set are rejected, NAMESRV_* in the environment has no effect.
    """
    with open_stage(invocation, data, *FOLDERS) as stage, ExitStack() as open_things:
        with stage.output.status("Starting RocketMQ's broker ..."):
            real = open_things.enter_context(broker(data / BROKER, stage.stack.gateway.address, "broker-a"))
        _play_rocketmq_scenes(stage, data, real)
    stage.scene("What is left")
    stage.output.print(
        f"Broker, gateway, Kafka and Spark are stopped; all tables are in {stage.root}. Go on with these:\n\n"
        f"  .venv/bin/namesrv-stream --root {stage.root} why broker-a\n"
        f"  .venv/bin/namesrv-stream --root {stage.root} snapshots\n\n"
        "or give your own broker a name server on this machine, until Ctrl-C:\n\n"
        "  .venv/bin/namesrv-stream up --brokers 0"
    )


def _play_rocketmq_scenes(stage: Stage, data: Path, real: LocalServer) -> None:
    """Play the scenes in order. All output is that of RocketMQ's own tools and of this project's command line."""
    namesrv = stage.stack.gateway.address
    stage.scene(f"A RocketMQ 5.4.0 broker has namesrvAddr={namesrv} and registers")
    stage.until("it is in the tables", lambda tables: real.address in tables.live)
    _mqadmin(stage, data, "clusterList")
    stage.scene(f"mqadmin makes the topic {TOPIC}")
    _mqadmin(stage, data, "updateTopic", "-c", "RealCluster", "-t", TOPIC, "-r", "2", "-w", "2")
    stage.until("its route is published", lambda tables: TOPIC in tables.queues)
    stage.scene("RocketMQ's Java client, inside mqadmin, sends and receives through that route")
    _mqadmin(stage, data, "sendMessage", "-t", TOPIC, "-p", "42_apples")
    _mqadmin(stage, data, "consumeMessage", "-t", TOPIC)
    stage.scene("kill -9 of the broker: its connection to the gateway closes")
    real.kill()
    stage.until("its route is gone", lambda tables: TOPIC not in tables.queues)
    stage.output.print("So the next answer of mqadmin is an error, as it should be:")
    _mqadmin(stage, data, "topicRoute", "-t", TOPIC)
    stage.scene("What happened, and why")
    stage.run("history")


def _mqadmin(stage: Stage, data: Path, *arguments: str) -> None:
    stage.say_command("mqadmin", *arguments)
    output = mqadmin(data / MQADMIN, stage.stack.gateway.address, *arguments)
    lines = [line for line in output.strip().splitlines() if not line.startswith("\tat ")]  # no Java stack
    stage.output.print("\n".join(lines[:8]), markup=False)
