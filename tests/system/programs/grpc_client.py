"""Send messages through RocketMQ's proxy, receive them again and print them: PROXY TOPIC BODY ..."""

import sys
from contextlib import suppress

from rocketmq.v5.client import ClientConfiguration, Credentials
from rocketmq.v5.consumer import SimpleConsumer
from rocketmq.v5.exception.client_exception import InternalErrorException
from rocketmq.v5.model import FilterExpression, Message
from rocketmq.v5.producer import Producer

proxy, topic, *bodies = sys.argv[1:]
configuration = ClientConfiguration(proxy, Credentials())
producer = Producer(configuration, (topic,))
producer.startup()
for body in bodies:
    message = Message()
    message.topic, message.body = topic, body.encode()
    producer.send(message)
consumer = SimpleConsumer(configuration, f"group-{topic}", {topic: FilterExpression()}, await_duration=5)
consumer.startup()
received = 0
while received < len(bodies):
    with suppress(InternalErrorException):  # the proxy does not know yet a consumer that has just started
        for message in consumer.receive(32, 60):
            consumer.ack(message)
            sys.stdout.write(f"{message.body.decode()}\n")
            received += 1
consumer.shutdown()
producer.shutdown()
