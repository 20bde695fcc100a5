"""The page in a real Chromium. Debian: apt-get install chromium chromium-driver."""

import csv
import re
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from namesrv_stream.answers import periods
from namesrv_stream.answers.job_status import NOT_ASKED, FromKafka
from namesrv_stream.cli.entry import main
from namesrv_stream.kafka.election import JobReport
from namesrv_stream.rules.record_types import PutKvConfig, WipeWritePerm
from namesrv_stream.tables.registry import Registry
from tests.clock import now_ms
from tests.console.background import ACTIVE, BackgroundConsole, kafka_tells
from tests.console.chromium import PHONE, Page, window
from tests.console.conftest import A, C, make_registry
from tests.console.crowd import lose_zone, publish_crowd
from tests.registry import PublishedRegistry

TAB = {"dead": "not running", "waiting": "blocked", "not answering": "not responding"}
"""State of the job -> its words in the title."""

pytestmark = [pytest.mark.full, pytest.mark.needs("chromedriver")]


@pytest.fixture(autouse=True)
def job():
    with kafka_tells():
        yield


@pytest.fixture
def registry(tmp_path):
    """A registry of a minute ago: the page doubts the present of an older one."""
    return make_registry(str(tmp_path / "registry"))


def test_a_hidden_tab_says_that_its_console_is_gone(registry, settings, driver):
    with BackgroundConsole(settings()) as console:
        page = Page(driver, console.url)
        page.open()
        page.shows("broker-a")
        page.hook("hide")
    page.until(lambda: driver.title.startswith("console unreachable"))
    page.leave()


@pytest.mark.parametrize(
    "view", ["overview", "brokers", "topics", "broker/broker-a", "topic/TopicA", "churn", "compare"]
)
def test_a_narrow_window_does_not_scroll_sideways(page, view):
    with page.phone():
        page.open(f"#/{view}")
        assert page.driver.execute_script("return document.documentElement.scrollWidth") <= PHONE


def test_names_of_brokers_are_text_and_never_markup(page, registry):
    registry.register(C, "<img src=x onerror=alert(1)>", "<script>alert(2)</script>", topics=("<b>bold</b>",))
    page.open()
    page.shows("<script>alert(2)</script>")
    page.open("#/topics")
    page.shows("<b>bold</b>")
    assert not page.find("main img, main script, main b.bold")


def test_a_job_that_does_not_work_is_said_however_new_the_tables_are_and_no_broker_looks_alive(page, registry):
    with kafka_tells(NOT_ASKED):
        page.open()
        page.until(lambda: "has published nothing since" in page.find("#banner")[0].text)
        page.until(lambda: page.find("#verdict")[0].text.startswith("Not known since "))
    registry.now_ms = now_ms()
    registry.register(C, "c1", "broker-c")
    for state, facts in {
        "dead": FromKafka(0, []),
        "waiting": FromKafka(0, [ACTIVE], report=JobReport("run-1", "waiting", "no room is left")),
        "not answering": FromKafka(0, [ACTIVE], report=JobReport("run-1", "active", "the JVM stands still")),
        "other log": FromKafka(0, [ACTIVE], problem="the topic was made anew", is_other_log=True),
        "unknown": FromKafka(problem="Kafka does not answer"),
    }.items():
        with kafka_tells(facts):
            page.open()
            page.until(lambda state=state: page.driver.title.startswith(f"job {TAB.get(state, state)} · "))
            told = facts.problem or (facts.report.problem if facts.report else "submit")
            assert told in page.find("#banner")[0].text
            assert page.find("#icon[href='icon-critical.svg']")
            assert "updated with each change" not in page.moment
            assert page.colour(".group .dot.alive") == page.colour(".group .quiet", "color")
    page.until(lambda: not page.find("#banner")[0].is_displayed() and page.find("#icon[href='icon.svg']"))
    page.until(lambda: "updated with each change" in page.moment)


def test_what_is_typed_focused_and_opened_stays_while_snapshots_come(page, registry):
    registry.register(C, "c1", "broker-c", topics=("topic-1",))
    page.open("#/topics")
    page.shows("4 topics")
    typed = page.find("main input[name=q]")[0]
    typed.send_keys("-")
    page.shows("1 topic")  # without TopicA, TopicB and Shared
    for number in range(20):
        registry.register(C, "c1", "broker-c", topics=(f"new-{number:02}",))
    page.shows("new-19")
    assert page.driver.switch_to.active_element == typed
    assert typed.get_attribute("value") == "-"
    page.open("#/topics/TopicA")  # as the path of the API
    page.find("main details summary")[0].click()
    page.until(lambda: "queueDatas" in page.find("main pre")[0].text)
    registry.command(WipeWritePerm(broker_name="broker-a", requested_by="ann", reason="full"))
    page.until(lambda: '"perm": 4' in page.find("main pre")[0].text)


def test_a_list_that_is_paged_to_is_as_long_when_a_snapshot_comes_and_ends_at_a_thousand_rows(page, registry):
    registry.register(C, "c1", "broker-c", topics=tuple(f"topic-{number:04}" for number in range(1_100)))
    page.open("#/compare?with=3")
    differences = "[data-key=differences] tbody tr"
    for count in range(100, 1_000, 100):
        page.until(lambda count=count: len(page.find(differences)) == count)
        page.find("[data-key=differences] .foot button")[0].click()
    page.until(lambda: "1,000 of" in page.text and "CSV saves all" in page.text)
    registry.command(PutKvConfig(namespace="NS", key="k", value="v"))
    page.shows("KV values")
    assert len(page.find(differences)) == 1_000


def test_verdict_and_list_are_of_one_epoch_while_snapshots_come(page, registry):
    registry.register(C, "c1", "broker-c")  # with two, the health line says both, without a number
    page.open("#/topics")
    page.until(lambda: page.find("#verdict.ok"))
    page.hook("watch")
    for number in range(30):
        registry.register(f"10.1.0.{number}:1", "c1", f"broker-{number}x", topics=(f"T{number}",))
    page.shows("33 topics")
    drawn = page.driver.execute_script("return window.drawn")
    told = {(topics - brokers, topics - writable) for brokers, writable, topics in drawn}
    assert told == {(0, 0)}, "each snapshot has one more of both"


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("#/?epoch=abc", "invalid epoch 'abc'"),
        ("#/broker/broker-x", "Similar: broker-"),
        ("#/nonsense", "No view 'nonsense'"),
        ("#/constructor", "No view 'constructor'"),
        ("#/brokers?window=2y", "invalid window '2y'"),
    ],
)
def test_a_wrong_address_of_the_page_is_named(page, address, problem):
    page.open(address)
    page.shows(problem)
    page.until(lambda: page.find("#verdict")[0].text.startswith("Both brokers up"))
    page.open()
    page.shows("broker-a")
    page.driver.get_log("browser")  # Chromium reports the answer 404


def test_the_track_shows_where_the_past_is_not_known_and_a_moment_there_says_why(page, registry):
    for number in range(4):
        registry.now_ms += 20_000
        registry.command(PutKvConfig(namespace="NS", key=f"k{number}", value="v"))
    files = sorted(Path(registry.root, "row_change").glob("*/*.parquet"), key=lambda file: file.stat().st_mtime_ns)
    for file in files[-3:-1]:
        file.unlink()
    assert CliRunner().invoke(main, ["--root", registry.root, "repair", "--take-over", "--yes"]).exit_code == 0
    hole = Registry(registry.root).newest().snapshot.holes[0]
    page.open()
    page.open_track()
    page.until(lambda: page.find(".rail rect.unknown") and page.find(".legend i.unknown")[0].is_displayed())
    page.open(f"#/?epoch={hole.from_epoch}")
    page.shows("is not known: rows of row_change were lost in the repair at")
    page.driver.get_log("browser")  # Chromium reports the answer 410


def test_a_stretch_of_the_track_that_is_dragged_over_fills_it(page, registry):
    for number in range(3):
        registry.now_ms += 20_000
        registry.command(PutKvConfig(namespace="NS", key=f"k{number}", value="v"))
    page.open()
    page.open_track()
    page.until(lambda: page.find(".rail path.asked")[0].get_attribute("d").count("M") == 3)
    strip = page.find("#time .edges")[0]
    width = strip.size["width"]
    drag = webdriver.ActionChains(page.driver).move_to_element_with_offset(strip, -width // 10, 0)
    drag.click_and_hold().move_by_offset(width * 4 // 10, 0).release().perform()
    page.until(lambda: 0 < page.find(".rail path.asked")[0].get_attribute("d").count("M") < 3)
    edges = [page.find(f"#time .edges > span:{place}-child")[0].text for place in ("first", "last")]
    assert [re.search(r"\d\d:\d\d:\d\d", each) is not None for each in edges] == [True, True]
    page.find("#time .buttons")[0].find_element(By.XPATH, "button[.='Zoom out']").click()
    page.until(lambda: page.find(".rail path.asked")[0].get_attribute("d").count("M") == 3)


CROWD = 200


@pytest.fixture(scope="module")
def crowd_root(tmp_path_factory):
    """Epoch 2 has 200 brokers of 100 names; epoch 3 is the outage of zone-1."""
    registry = PublishedRegistry(str(tmp_path_factory.mktemp("crowd") / "registry"), now_ms() - 60_000)
    publish_crowd(registry, CROWD, topics=300, topics_a_broker=12)
    registry.now_ms += 1_000
    lose_zone(registry, CROWD, "zone-1")
    return registry.root


@pytest.fixture
def crowd(crowd_root, settings, driver):
    with window(driver, settings(delta__root=crowd_root)) as page:
        yield page


def test_in_an_outage_of_a_zone_what_is_wrong_comes_first_and_in_a_few_lines(crowd):
    crowd.open("#/?epoch=3")
    crowd.shows("Problems")
    assert crowd.find("main h2")[0].text == "Problems"
    [line] = [each.text for each in crowd.find(".troubles > li strong")]
    assert line.startswith("zone-1 down since ")
    assert line in crowd.find("#verdict")[0].text
    assert crowd.driver.execute_script("return document.documentElement.scrollHeight") < 2_500
    assert len(crowd.find("main a")) < 100
    crowd.find(".troubles > li .names li:last-child a")[0].click()
    crowd.shows("66 brokers")
    assert "expired at" in crowd.text


def test_a_list_is_paged_sorted_and_chosen_by_place_and_while_one_types(crowd):
    crowd.open("#/brokers?epoch=2")
    crowd.shows("200 brokers")
    assert len(crowd.column(1)) == 100
    crowd.find(".foot button")[0].click()
    crowd.until(lambda: len(crowd.column(1)) == CROWD)
    crowd.driver.execute_script("scrollTo(0, 0)")
    crowd.find("th button.sort")[0].click()
    crowd.until(lambda: crowd.column(1)[0] == "broker-99")
    crowd.find("select[aria-label=Zone] option[value=zone-2]")[0].click()
    crowd.until(lambda: "zone=zone-2" in crowd.driver.current_url and set(crowd.column(5)) == {"zone-2"})
    crowd.find("main input[name=q]")[0].send_keys("broker-15 slave 1")
    crowd.until(lambda: crowd.column(1) == ["broker-15"] and crowd.column(2) == ["slave 1"])
    assert crowd.driver.switch_to.active_element.get_attribute("value") == "broker-15 slave 1"


def test_the_verdict_stays_in_sight_at_200_percent(crowd):
    with crowd.phone(700, 500):  # a window of 1400 by 1000 at 200 %
        crowd.open("#/brokers?epoch=2")
        crowd.shows("200 brokers")
        crowd.driver.execute_script("scrollTo(0, 1500)")
        [verdict], [track] = crowd.find("#verdict"), crowd.find("#time")
        assert crowd.driver.execute_script("return arguments[0].getBoundingClientRect().top", verdict) == 0
        assert crowd.driver.execute_script("return arguments[0].getBoundingClientRect().bottom", track) < 0


def saved(page):
    """Return the name of the file of the page's first table, its rows, and its first three octets."""
    page.hook("save")
    page.find("button.csv")[0].click()
    page.until(lambda: page.driver.execute_script("return window.saved") is not None)
    name, octets = page.driver.execute_script("return [window.savedAs, window.saved]")
    return name, list(csv.DictReader(bytes(octets).decode("utf-8").removeprefix("\ufeff").splitlines())), octets[:3]


def test_a_table_is_saved_with_all_its_rows(crowd):
    crowd.open("#/brokers?epoch=3&cluster=cluster-1")
    crowd.shows("66 brokers")
    name, rows, begin = saved(crowd)
    assert (len(rows), bytes(begin)) == (66, b"\xef\xbb\xbf")
    assert re.fullmatch(r"brokers_cluster=cluster-1_epoch-3_\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.csv", name)
    assert {each["state"] for each in rows} == {"alive", "down"}
    for each in rows:
        is_down = each["state"] == "down"
        times = each["down.goneAt"], each["leaseBeganAt"]
        assert [bool(re.fullmatch(r"\d{4}-.*Z", time)) for time in times] == [is_down, not is_down]
        assert (each["silentMillis"].isdigit(), each["brokerId"].isdigit()) == (not is_down, True)


def test_no_cell_of_a_saved_table_is_a_formula(page, registry):
    registry.register(C, "c1", "-1+cmd")
    page.open("#/brokers?q=cmd")
    page.until(lambda: page.column(1) == ["-1+cmd"])
    assert [each["brokerName"] for each in saved(page)[1]] == ["'-1+cmd"]


def test_a_page_that_is_left_gives_its_connection_back(crowd):
    for _ in range(8):  # a browser has six connections for one host
        crowd.open("#/topics?epoch=2")
        crowd.shows("300 topics")


def test_the_overview_follows_the_present_and_a_hidden_tab_says_that_something_is_down(page, registry):
    page.open()
    page.shows("broker-a")
    assert "underline" in page.colour("main h3 a", "text-decoration-line"), "links have more than a colour"
    registry.now_ms = now_ms()
    registry.register(C, "c1", "broker-c", topics=("T",))
    page.shows("broker-c")
    page.until(lambda: "Now" in page.moment and page.find("#verdict.ok"))
    page.hook("hide")
    registry.expire(A)
    page.until(lambda: page.driver.title.startswith("TopicA without a route"))
    assert page.find("#icon[href='icon-critical.svg']")


def test_who_unregistered_is_told_without_alarm_and_found(page, registry):
    registry.unregister(A)
    page.open()
    page.until(lambda: "unregistered at" in page.find("#verdict")[0].text)
    page.shows("Unregistered within the last hour")
    page.find("#search input")[0].send_keys("TopicA")
    page.until(lambda: "removed topic" in page.find("#found li")[0].text)
    page.open("#/brokers?state=left")
    page.until(lambda: A in page.text)


def test_a_topic_and_a_broker_begin_with_their_verdict_and_name_what_is_missing(page, registry):
    registry.command(WipeWritePerm(broker_name="broker-a", requested_by="ann", reason="disk full"))
    registry.expire(A)
    page.open("#/topic/TopicA")
    page.shows("TopicA has no route")
    assert [each.text for each in page.find(".missing s")] == ["broker-a"]
    page.open("#/topic/TopicA?epoch=4")
    page.shows("R--")
    page.open("#/broker/broker-a")
    page.until(lambda: "(expired); of its 2 topics 1 without a route" in page.find("main .verdict.down")[0].text)
    registry.register(C, "c1", "broker-a", broker_id=1)
    page.open()
    page.until(lambda: [A in each.text for each in page.find(".group .ghost")] == [True])
    page.shows("no master, not writable")


def test_the_slider_moves_the_page_to_the_moment_and_the_address_keeps_it(page, registry):
    registry.now_ms = now_ms()  # a registry of a minute ago is soon stale, and then not Now
    registry.expire(A)
    page.open()
    page.until(lambda: page.find(".rail path.left[d^=M]"))
    page.press(Keys.ARROW_LEFT)
    page.until(lambda: page.find("#verdict.critical")[0].text.startswith("At "))
    assert (page.driver.title.startswith("past"), page.find("#icon[href='icon.svg']") != []) == (True, True)
    page.press(Keys.ARROW_LEFT)
    page.until(lambda: "epoch=3" in page.driver.current_url)
    page.until(lambda: A in page.text and not page.find(".ghost") and "1 broker came online" in page.moment)
    page.open(f"#{page.driver.current_url.partition('/#')[2]}")
    page.shows(A)
    page.press(Keys.END)
    page.until(lambda: "Now" in page.moment and page.find(".ghost"))


def test_every_moment_is_reached_where_marks_stand_for_several(page, registry, monkeypatch):
    monkeypatch.setattr(periods, "MAX_MARKS", 3)
    for number in range(10):
        registry.now_ms += 100
        registry.command(PutKvConfig(namespace="NS", key=f"k{number}", value="v"))
    page.open()
    page.until(lambda: page.find(".rail path.asked[d^=M]"))
    page.press(Keys.ARROW_LEFT)  # from the present to the newest epoch
    for key, epochs in ((Keys.ARROW_LEFT, range(13, 6, -1)), (Keys.ARROW_RIGHT, range(6, 13))):
        for epoch in epochs:
            page.until(lambda epoch=epoch: page.driver.current_url.endswith(f"epoch={epoch}"))
            page.press(key)
    page.until(lambda: page.driver.current_url.endswith("epoch=13"))
    page.open("#/overview?epoch=8")
    page.driver.refresh()  # all marks stand for several again
    page.until(lambda: "close together" in page.moment)
    page.press(Keys.ARROW_LEFT)
    page.until(lambda: page.driver.current_url.endswith("epoch=7"))
    [number] = page.find("#time input[name=moment]")
    number.send_keys("1" + Keys.ENTER)  # the claim of the run, at which nothing changed
    page.until(lambda: page.driver.current_url.endswith("epoch=1") and "Snapshot 1" in page.moment)


def test_two_moments_are_compared(page):
    page.open("#/compare?with=2&epoch=3")
    page.shows("broker-b")
    assert page.find("b.came")
    assert "broker-a" not in page.text  # it is the same at both moments
    assert "1 broker up, 1 broker group" in page.text  # nobody knows who was late in the past
    [first] = page.find("form.pair input[name=before]")
    first.clear()
    first.send_keys("3", Keys.ENTER)
    page.shows("No differences.")


def test_a_command_asks_for_its_reason_and_a_deletion_for_the_name(page):
    def asked(address, text):
        page.open(address)
        page.until(lambda: page.find("main .commands button"))
        page.find("main .commands button")[0].click()
        assert text in page.find("dialog")[0].text
        return page.find("dialog input")

    asked("#/broker/broker-a", "2 topics with 16 write queues on broker-a (1 broker in c1)")
    page.driver.execute_script("location.hash = '#/topic/TopicA'")
    page.shows("Route, as clients get it")
    assert not page.find("dialog[open]"), "nothing is sent from a page that has been left"
    typed, reason = asked("#/topic/Shared", "16 read queues and 16 write queues on 2 broker groups in c1, c2")
    typed.send_keys("Share")
    reason.send_keys("retired", Keys.ENTER)
    page.until(lambda: "Not sent" in page.find("dialog")[0].text)
    typed.send_keys("d", Keys.ENTER)
    page.until(lambda: "cannot reach Kafka" in page.find("dialog")[0].text)
    assert len(page.errors) == 1  # Chromium reports the answer 503


def test_a_time_is_typed_in_the_zone_that_is_chosen_and_shown_to_the_second(page, registry):
    registry.now_ms += 20_000
    registry.expire(A)
    asked = datetime.fromtimestamp((registry.now_ms - 10_000) // 1000, UTC)
    typed = f"{asked.astimezone(ZoneInfo('Asia/Tokyo')):%Y-%m-%d %H:%M:%S}"
    page.open()
    page.open_track()
    page.until(lambda: page.find(".rail path.left[d^=M]"))
    page.find("#time select[aria-label='Time zone'] option[value='Asia/Tokyo']")[0].click()
    page.find("#time input[name=moment]")[0].send_keys(typed, Keys.ENTER)
    page.until(lambda: "at=20" in page.driver.current_url and f"{typed.split()[1]} GMT+9" in page.moment)
    page.until(lambda: "all events until this time" in page.moment and not page.find(".ghost"))
    page.open(f"#/brokers?at={asked:%Y-%m-%dT%H:%M:%SZ}")
    page.shows("broker-a")
    assert ("NaN" in page.text, typed.split()[1] in page.moment) == (False, True)
    page.find("#time input[name=moment]")[0].send_keys("yesterday-ish", Keys.ENTER)
    page.until(lambda: "invalid time" in page.find("#time .note")[0].text)
    page.driver.execute_script("localStorage.clear()")
    assert len(page.errors) == 1  # Chromium reports the answer 400


def test_a_story_says_how_many_lines_it_has_and_shows_the_older_ones(page, registry):
    for _ in range(20):
        registry.now_ms += 1000
        registry.expire(A, publish=False)
        registry.register(A, "c1", "broker-a", publish=False)
    registry.publish()
    page.open("#/broker/broker-a")
    for count in (30, 60):
        page.shows(f"Showing {count} of 82")
        page.find(".columns .foot button")[0].click()
    page.until(lambda: len(page.find(".story li")) == 82)


def test_the_search_finds_as_one_types_and_leads_to_an_exact_name(page, registry):
    registry.register(C, "c1", "broker-c", topics=("pay", *(f"{letter}_pay" for letter in "abcdef")))
    page.open()
    page.shows("broker-c")
    page.find("body")[0].send_keys("/")
    for text, kind in (
        ("roker-b", "broker"),
        (A.partition(":")[0], "address of"),
        ("opicA", "topic"),
        ("c1", "cluster"),
    ):
        page.driver.switch_to.active_element.send_keys(Keys.CONTROL + "a", Keys.NULL, text)
        page.until(lambda: any(text in each.text and kind in each.text for each in page.find("#found li")))  # noqa: B023
    page.find("#search input")[0].send_keys(Keys.CONTROL + "a", Keys.NULL, "pay")
    page.until(lambda: page.find("#found li")[0].text == "pay\ntopic")
    page.until(lambda: page.find("#found li")[-1].text == "Showing 6 of 7 topics")
    page.find("#search input")[0].send_keys(Keys.CONTROL + "a", Keys.NULL, "TopicA")
    page.until(lambda: page.find("#found li")[0].text == "TopicA\ntopic")
    page.find("#search input")[0].send_keys(Keys.ENTER)
    page.until(lambda: page.driver.current_url.endswith("#/topic/TopicA"))
    page.shows("Route, as clients get it")
    assert page.driver.switch_to.active_element.get_attribute("id") == "content"


def test_system_topics_are_hidden_until_asked_for_and_again_after_a_step_back(crowd):
    crowd.open("#/topics?epoch=2")
    crowd.shows("300 topics")
    crowd.find("input[name=system]")[0].click()
    crowd.shows("405 topics")
    crowd.driver.back()
    crowd.shows("300 topics")
    assert not crowd.find("input[name=system]")[0].is_selected()


def test_tables_that_are_not_there_or_empty_are_said(tmp_path, settings, driver):
    with window(driver, settings(delta__root=str(tmp_path / "none"))) as page:
        page.open()
        page.shows("no registry at")
        assert ("namesrv-stream demo" in page.text, page.find("#time")[0].is_displayed()) == (True, False)
        registry = PublishedRegistry(str(tmp_path / "none"), now_ms())
        page.shows("No brokers registered")
        registry.register(A, "c1", "broker-a")
        page.shows("broker-a")
        assert page.find("#time")[0].is_displayed()
