"""RocketMQ's Java client in a JVM that Python drives."""

import time
from contextlib import contextmanager
from typing import NamedTuple

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from namesrv_stream.tools.local.jars import find_java, pyspark_jar, retrieved_jars
from real_rocketmq.servers import Release, write_log_settings

BODIES = [f"message {number:02}" for number in range(100)]
"""Of messages, in the order in which programs show what they have received."""

_CALL_LIMIT_S = 90
"""Limit for one call of the Java client, whose own timeouts are shorter."""


class Keys(NamedTuple):
    """The access key and secret key with which a client or mqadmin signs its requests."""

    access_key: str
    secret_key: str


class JavaClient:
    """RocketMQ's Java client in a JVM that Python drives: one producer and any number of consumers."""

    def __init__(self, java: JavaGateway, namesrv_addr: str, keys: Keys | None = None) -> None:
        self._client = java.jvm.org.apache.rocketmq.client
        self._signs = ()
        if keys is not None:
            acl = java.jvm.org.apache.rocketmq.acl.common
            self._signs = (acl.AclClientRPCHook(acl.SessionCredentials(*keys)),)
        self._message = java.jvm.org.apache.rocketmq.common.message.Message
        self._consume_from = java.jvm.org.apache.rocketmq.common.consumer.ConsumeFromWhere
        self._namesrv_addr = namesrv_addr
        self._producer = self._client.producer.DefaultMQProducer("namesrv-stream-producer", *self._signs)
        self._producer.setNamesrvAddr(namesrv_addr)
        self._producer.setSendMsgTimeout(60_000)
        self._producer.start()

    def create_topic(self, topic: str, cluster: str) -> None:
        """Create a topic on all masters of a cluster, with a client of 4.x."""
        self._producer.createTopic(cluster, topic, 4)

    def carried(self, topic: str, bodies: list[str], limit_s: float = 60.0) -> list[str]:
        """Send messages one by one, each acknowledged by a broker. Return in their order those that are received.

        They are read from the topic's start, as many as were sent, or fewer if the limit has passed.
        """
        for body in bodies:
            result = self._producer.send(self._message(topic, body.encode()))
            status = result.getSendStatus().name()
            if status not in ("SEND_OK", "SLAVE_NOT_AVAILABLE"):
                raise AssertionError(f"a message to {topic} was not sent: {status}. The broker's log shows why.")
        consumer = self._client.consumer.DefaultLitePullConsumer(f"group-{topic}", *self._signs)
        consumer.setNamesrvAddr(self._namesrv_addr)
        consumer.setConsumeFromWhere(self._consume_from.CONSUME_FROM_FIRST_OFFSET)
        consumer.subscribe(topic, "*")
        consumer.start()
        ends_s, found = time.monotonic() + limit_s, list[str]()
        try:
            while len(found) < len(bodies) and time.monotonic() < ends_s:
                found.extend(bytes(message.getBody()).decode() for message in consumer.poll(500))
        finally:
            consumer.shutdown()
        return sorted(found)

    def close(self) -> None:
        """Stop the producer."""
        self._producer.shutdown()


@contextmanager
def client_jvm(home, release: Release = Release.V5):
    """Run a JVM with RocketMQ's client in it within the `with`, and yield py4j's way to its classes.

    A call that does not return within _CALL_LIMIT_S raises an error. Only this process knows the JVM's token, so no
    other user of the machine can drive it. It ends with this process.
    """
    home = home.resolve()
    write_log_settings(home)
    with (home / "client-console.log").open("w") as log:
        port, token, jvm = launch_gateway(
            jarpath=str(pyspark_jar("py4j")),
            classpath=f"{home / 'conf'}:{retrieved_jars(release.value)}/*",
            javaopts=["-Xmx256m", f"-Duser.home={home}", f"-Drocketmq.client.logRoot={home}"],
            java_path=str(find_java()),
            redirect_stdout=log,
            redirect_stderr=log,
            die_on_exit=True,
            create_new_process_group=True,
            enable_auth=True,
            return_proc=True,
        )
        parameters = GatewayParameters(port=port, auto_convert=True, read_timeout=_CALL_LIMIT_S, auth_token=token)
        java = JavaGateway(gateway_parameters=parameters)
        try:
            yield java
        finally:
            java.shutdown()  # before the JVM ends: py4j would connect to it whenever one of its objects is collected
            jvm.stdin.close()
            jvm.wait()


@contextmanager
def java_client(home, namesrv_addr: str, release: Release = Release.V5, keys: Keys | None = None):
    """Run a Java client of this release, in a JVM of its own, within the `with`."""
    with client_jvm(home, release) as java:
        client = JavaClient(java, namesrv_addr, keys)
        try:
            yield client
        finally:
            client.close()
