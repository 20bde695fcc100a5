"""An error of Kafka that passes is never told as a refusal, and a client that met one is gone."""

import gc
import subprocess
import sys

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from namesrv_stream.errors import KafkaRefusedError, KafkaUnreachableError
from namesrv_stream.kafka.librdkafka import named_kafka_error
from namesrv_stream.kafka.topic import answers, end_offsets
from tests.waiting import until


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.UNKNOWN_LEADER_EPOCH, KafkaUnreachableError),
        (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaUnreachableError),
        (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaUnreachableError),
        (KafkaError.NOT_ENOUGH_REPLICAS, KafkaUnreachableError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaRefusedError),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaRefusedError),
    ],
)
def test_what_clients_try_again_by_contract_is_no_refusal(code, kind):
    assert type(named_kafka_error(KafkaError(code), "127.0.0.1:9092")) is kind


def test_a_client_that_got_no_answer_is_gone(nobody):
    def clients():
        return {id(each) for each in gc.get_objects() if isinstance(each, AdminClient)}

    before = clients()
    assert not answers({"bootstrap.servers": nobody, "socket.timeout.ms": 1_000})
    until(lambda: clients() <= before)


@pytest.mark.usefixtures("quickly_away")
def test_a_client_is_closed_when_its_question_ends_whoever_keeps_the_error(nobody):
    others = [each for each in gc.get_objects() if isinstance(each, AdminClient)]  # kept, so that none gets their place
    with pytest.raises(KafkaUnreachableError) as kept:
        end_offsets({"bootstrap.servers": nobody})
    known = set(map(id, others))
    made = [each for each in gc.get_objects() if isinstance(each, AdminClient) and id(each) not in known]
    assert any(map(is_closed, made))
    until(lambda: all(map(is_closed, made)))  # a watch of an earlier test may be about to end
    assert kept.value is not None


def is_closed(client):
    try:
        client.poll(0)
    except RuntimeError:
        return True
    return False


AT_THE_END = """
import atexit, contextlib, gc, threading, time
from confluent_kafka.admin import AdminClient

def clients():
    return [each for each in gc.get_objects() if isinstance(each, AdminClient)]

@atexit.register
def at_the_end():  # after those that are registered later
    for client in clients():
        with contextlib.suppress(RuntimeError):
            client.poll(0)
            print("open")

from namesrv_stream.kafka.topic import answers

kafka = {"bootstrap.servers": "NOBODY", "socket.timeout.ms": 1_000}
threading.Thread(target=answers, args=[kafka], daemon=True).start()
while not clients():
    time.sleep(0.01)
"""


def test_a_process_ends_only_once_no_thread_of_it_asks_kafka(nobody):
    program = AT_THE_END.replace("NOBODY", nobody)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
