"""A gateway as a process of its own, from start to an orderly end."""

import contextlib
import re
import subprocess
import sys
from pathlib import Path

from namesrv_stream.wire.codes import ResponseCode
from tests.gateway.peer import Peer
from tests.waiting import eventually

PROGRAM = Path(sys.executable).with_name("namesrv-stream")


@contextlib.contextmanager
def gateway_process(folder, root, nobody, stderr=subprocess.DEVNULL):
    """Run a gateway on the tables in `root`, without Kafka. Yield the process and the port at which it listens."""
    file = folder / "namesrv.properties"
    file.write_text(f"listenPort=0\ndelta.root={root}\nkafka.bootstrap.servers={nobody}\n")
    command = [PROGRAM, "gateway", "-c", file]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as running:
        try:
            port = re.fullmatch(r"The Name Server boot success: 127\.0\.0\.1:(\d+)\n", running.stdout.readline())[1]
            yield running, int(port)
        finally:
            running.kill()


@eventually
def await_snapshot(port, topic):
    """Return once the gateway answers a lookup of the topic from a snapshot."""
    with Peer(port) as peer:
        assert peer.ask(105, topic=topic).code == ResponseCode.SUCCESS
