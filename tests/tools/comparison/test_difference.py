"""Differences between two answers: which count, and which do not."""

import pytest

from namesrv_stream.tools.comparison import AnswerDifference, differences

QUEUE = {"brokerName": "a", "perm": 6, "readQueueNums": 8}
GROUP = {"brokerName": "a", "cluster": "c", "brokerAddrs": {"0": "10.0.0.1:10911"}}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"queueDatas": [QUEUE, QUEUE | {"brokerName": "b"}]}, {"queueDatas": [QUEUE | {"brokerName": "b"}, QUEUE]}),
        ({"topicList": ["x", "y"]}, {"topicList": ["y", "x"]}),
        ({"clusterAddrTable": {"c": ["a", "b"]}}, {"clusterAddrTable": {"c": ["b", "a"]}}),
        ({"brokerDatas": [GROUP]}, {"brokerDatas": [GROUP | {"zoneName": None, "enableActingMaster": False}]}),
        ({"filterServerTable": {}}, {}),
        (None, None),
    ],
)
def test_order_and_empty_fields_do_not_count(ours, theirs):
    assert list(differences("q", ours, theirs)) == []


@pytest.mark.parametrize(
    ("ours", "theirs", "place", "values"),
    [
        ({"queueDatas": [QUEUE]}, {"queueDatas": [QUEUE | {"perm": 4}]}, "queueDatas.a.perm", (6, 4)),
        ({"topicList": ["x", "y"]}, {"topicList": ["y"]}, "topicList.x", ("listed", None)),
        (
            {"brokerDatas": [GROUP]},
            {"brokerDatas": [GROUP | {"brokerAddrs": {"0": "10.0.0.2:10911"}}]},
            "brokerDatas.a.brokerAddrs.0",
            ("10.0.0.1:10911", "10.0.0.2:10911"),
        ),
        ({"table": {"k": "v"}}, None, "", ({"table": {"k": "v"}}, None)),
        (
            {"queueDatas": [QUEUE]},
            {"queueDatas": [QUEUE | {"topicSysFlag": 1}]},
            "queueDatas.a.topicSysFlag",
            (None, 1),
        ),
    ],
)
def test_a_difference_names_the_place_and_both_values(ours, theirs, place, values):
    assert list(differences("q", ours, theirs)) == [AnswerDifference("q", place, *values)]
