"""compare: a gateway on other tables stands for the NameServer, which speaks the same protocol over a real socket."""

import json
import socket
import threading

import pytest

from namesrv_stream.gateway.launch import BackgroundGateway
from namesrv_stream.rules.record_types import DeleteTopic, PutKvConfig, WipeWritePerm
from tests.build import settings_of
from tests.clock import now_ms
from tests.interruption import running
from tests.registry import PublishedRegistry
from tests.waiting import LIMIT_S


@pytest.fixture
def theirs(request, tmp_path, patient_start):
    """The NameServer's registry, with the address of a gateway that serves it. Its parameter: more settings."""
    other = PublishedRegistry(str(tmp_path / "theirs"), now_ms() - 60_000)
    fill(other)
    settings = settings_of(other.root, "127.0.0.1:1", listenPort=0, **getattr(request, "param", {}))
    with BackgroundGateway(settings) as running:
        other.address = f"127.0.0.1:{running.gateway.port}"
        yield other


def fill(registry):
    registry.register("10.0.0.1:10911", "c1", "broker-a", topics=("TopicA", "Orders"), publish=False)
    registry.register("10.0.0.2:10911", "c1", "broker-b", publish=False)
    registry.command(PutKvConfig(namespace="ORDER_TOPIC_CONFIG", key="TopicA", value="broker-a:8"))


def test_equal_registries_have_no_difference_and_end_with_0(run, registry, theirs):
    fill(registry)
    result = run(f"compare -n {theirs.address}")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("no differences")


def test_every_kind_of_difference_is_named_with_both_values(run, registry, theirs):
    fill(registry)
    registry.register("10.0.0.3:10911", "c2", "broker-c", topics=("New",), publish=False)
    registry.command(PutKvConfig(namespace="ORDER_TOPIC_CONFIG", key="TopicA", value="broker-a:4"), publish=False)
    registry.command(WipeWritePerm(broker_name="broker-b"))
    result = run(f"compare -n {theirs.address} --json")
    assert result.exit_code == 1
    found = {(e["question"], e["place"]): (e["ours"], e["theirs"]) for e in json.loads(result.stdout)["differences"]}
    assert found["topics", "topicList.New"] == ("listed", None)
    assert found["route of TopicA", "queueDatas.broker-b.perm"] == (4, 6)
    assert found["KV ORDER_TOPIC_CONFIG", "table.TopicA"] == ("broker-a:4", "broker-a:8")
    assert found["clusters", "clusterAddrTable.c2"] == (["broker-c"], None)
    assert found["topics of c2", "topicList"] == ({"New": "listed"}, None)
    assert not {question for question, _ in found} & {"route of Orders", "topics of c1"}
    rows = [line.split() for line in run(f"compare -n {theirs.address}").stdout.splitlines()]
    assert ["route", "of", "TopicA", "queueDatas.broker-b.perm", "4", "6"] in rows


def test_watch_ends_with_0_once_both_agree(registry, theirs):
    registry.register("10.0.0.1:10911", "c1", "broker-a", topics=("TopicA", "Orders"))
    with running("--root", registry.root, "compare", "-n", theirs.address, "--watch", "0.1") as watching:
        assert not watching.stdout.readline().startswith("no differences")
        registry.register("10.0.0.2:10911", "c1", "broker-b", publish=False)
        registry.command(PutKvConfig(namespace="ORDER_TOPIC_CONFIG", key="TopicA", value="broker-a:8"))
        shown, _ = watching.communicate(timeout=LIMIT_S)
        assert (watching.returncode, shown.splitlines()[-1].startswith("no differences")) == (0, True)


NO_LIST = {"enableAllTopicList": "false"}
NO_LISTS = {"enableAllTopicList": "false", "enableTopicList": "false"}


@pytest.mark.parametrize(
    ("theirs", "ours", "answers"),
    [({}, NO_LIST, ["rejected: disable", "answered"]), (NO_LIST, {}, ["answered", "rejected: disable"])],
    indirect=["theirs"],
)
def test_a_question_that_one_side_alone_refuses_is_a_difference(run, registry, theirs, ours, answers):
    fill(registry)
    result = run(f"compare -n {theirs.address} --json", **ours)
    [found] = json.loads(result.stdout)["differences"]
    assert result.exit_code == 1
    assert [found[name] for name in ("question", "ours", "theirs")] == ["topics", *answers]


@pytest.mark.parametrize("theirs", [NO_LISTS], indirect=True)
def test_a_question_that_both_sides_refuse_is_named_and_ends_with_3(run, registry, theirs):
    fill(registry)
    result = run(f"compare -n {theirs.address}", **NO_LISTS)
    assert result.exit_code == 3
    assert "5 questions not compared" in result.stdout
    assert "not compared: topics (both sides reject it: disable)" in result.stderr
    assert "not compared: topics of c1 (both sides reject" in result.stderr
    assert "Set both to true on both sides" in result.stderr


@pytest.mark.parametrize("theirs", [NO_LIST], indirect=True)
def test_a_topic_that_only_a_clusters_list_names_is_compared(run, registry, theirs):
    fill(registry)
    registry.command(DeleteTopic(topic="Orders"))
    found = json.loads(run(f"compare -n {theirs.address} --json", **NO_LIST).stdout)["differences"]
    assert "route of Orders" in {each["question"] for each in found}


def test_a_server_of_another_protocol_is_no_name_server(run, registry):
    registry.publish()
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer():
            connection, _ = other.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        result = run(f"compare -n 127.0.0.1:{other.getsockname()[1]}")
    assert result.exit_code == 1
    assert "cannot reach the NameServer" in result.stderr
