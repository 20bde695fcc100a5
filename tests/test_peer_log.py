"""Log lines about peers: no peer and no number of peers can fill the log."""

import logging

import pytest

from namesrv_stream.reporting.logs import LINES_OF_A_HOST, LINES_OF_ALL, PeerLog

HISTORY = "`namesrv-stream history` lists brokers that came or went"


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO)
    with caplog.filtering(logging.Filter("peers")):  # a Kafka client of another test may still be ending
        yield PeerLog(logging.getLogger("peers"))


def test_a_host_has_ten_lines_in_ten_seconds_and_a_count_of_the_rest(log, caplog):
    for number in range(25):
        log.line("10.0.0.1", number / 10, logging.INFO, f"refused {number}")
    log.sum_up(9.9)
    assert caplog.messages == [f"refused {number}" for number in range(LINES_OF_A_HOST)]
    log.sum_up(10)
    assert (
        caplog.messages[-1]
        == "10.0.0.1: 15 more lines about its connections, requests and brokers are left out in 10 s; " + HISTORY
    )
    log.line("10.0.0.1", 10, logging.INFO, "refused again")
    log.sum_up(30)
    assert caplog.messages[-1] == "refused again"


def test_all_hosts_have_two_hundred_lines_in_ten_seconds_and_eleven_for_the_rest(log, caplog):
    for number in range(5_000):
        for _ in range(2):
            log.line(f"10.0.{number >> 8}.{number & 255}", 0, logging.INFO, "refused")
    assert caplog.messages == ["refused"] * LINES_OF_ALL
    log.sum_up(10)
    summed_up = caplog.messages[LINES_OF_ALL:]
    assert len(summed_up) == 11
    assert summed_up[-1] == "4890 other addresses: 9780 more of the same in 10 s"
    log.line("10.0.0.1", 10, logging.INFO, "refused again")
    assert caplog.messages[-1] == "refused again"


def test_brokers_that_come_and_go_take_no_warnings_place_nor_do_lines_that_are_not_logged(log, caplog):
    for number in range(20):
        for _ in range(LINES_OF_A_HOST):
            log.line(f"10.0.0.{number}", 0, logging.INFO, "registers", "10.0.0.9:10911")
    log.line("10.0.1.1", 0, logging.WARNING, "refused")
    assert caplog.messages[-1] == "refused"
    log.line("10.0.1.1", 0, logging.INFO, "registers")
    log.sum_up(10)
    assert [caplog.records[-1].levelno, caplog.messages[-1].partition(" more")[0]] == [logging.INFO, "10.0.1.1: 1"]
    caplog.set_level(logging.WARNING)
    for _ in range(20):
        log.line("10.0.2.1", 20, logging.INFO, "registers")
    caplog.clear()
    log.sum_up(40)
    assert caplog.messages == []
