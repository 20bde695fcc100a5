import os
import socket

import pytest

from namesrv_stream.errors import NamesrvError
from namesrv_stream.tools.local import kafka_server as local_kafka
from namesrv_stream.tools.local.kafka_server import LocalKafka

pytestmark = pytest.mark.system


def test_a_port_in_use_is_named_before_anything_is_started(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(NamesrvError, match=f"port {port} on 127.0.0.1, for Kafka .* is already in use"):
            LocalKafka(tmp_path / "kafka", port=port).start()
    assert not (tmp_path / "kafka").exists()


@pytest.mark.full
def test_a_node_that_ends_in_order_leaves_the_classes_with_which_the_next_one_starts(tmp_path, monkeypatch):
    folder, classes, node = tmp_path / "my jars", tmp_path / "classes.txt", LocalKafka(tmp_path / "kafka")
    folder.mkdir()
    monkeypatch.setattr(local_kafka, "ARCHIVE", folder / "classes.jsa")
    with node:
        pass
    assert [file.name for file in folder.iterdir()] == ["classes.jsa"]
    logged = f"{os.environ['JDK_JAVA_OPTIONS']} -Xlog:class+load:file={classes}"
    monkeypatch.setenv("JDK_JAVA_OPTIONS", logged)
    with node:
        pass
    assert "kafka.server.BrokerServer source: shared objects file (top)" in classes.read_text()
