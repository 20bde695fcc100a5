"""The page in an outage, in a real Chromium: never silently old, causes first, the end told too."""

import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from namesrv_stream.rules.record_types import BrokerHeartbeat
from tests.clock import now_ms
from tests.console.background import kafka_tells
from tests.console.chromium import Page, window
from tests.console.conftest import A, B, C, make_registry
from tests.console.crowd import address_of, cluster_of, lose_zone, name_of, publish_crowd, zone_of
from tests.console.registries import ticks
from tests.registry import PublishedRegistry

PROGRAM = Path(sys.executable).with_name("namesrv-stream")

pytestmark = [pytest.mark.full, pytest.mark.needs("chromedriver")]

TOLD_WITHIN_S = 12
"""A console that hangs is told within 10 s: 4 s between two looks, 5 s for an answer; and a little for the page."""


@pytest.fixture(autouse=True)
def job():
    with kafka_tells():
        yield


@pytest.fixture
def registry(tmp_path):
    return make_registry(str(tmp_path / "registry"))


@contextmanager
def own_process(root):
    """A console in a process of its own, which a test may stop; yields the process and its address."""
    command = [PROGRAM, "console", "--root", root, "--set", "console.port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield process, process.stdout.readline().removeprefix("console: ").strip().rstrip("/")
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()


@pytest.mark.parametrize("is_hidden", [False, True])
def test_a_console_that_hangs_is_told_within_ten_seconds_and_so_is_its_return(registry, driver, is_hidden):
    with own_process(registry.root) as (process, url):
        page = Page(driver, url)
        page.open()
        page.shows("broker-a")
        if is_hidden:
            page.hook("hide")
        process.send_signal(signal.SIGSTOP)
        stopped_s = time.monotonic()
        page.until(lambda: driver.title.startswith("console unreachable"))
        assert time.monotonic() - stopped_s < TOLD_WITHIN_S
        if not is_hidden:
            assert page.find("#banner")[0].is_displayed()
            page.find("#search input")[0].send_keys("broker")
            page.until(lambda: "Nothing can be looked up now" in page.find("#found")[0].text)
            page.find("#nav a[href='#/topics']")[0].click()
            page.shows("The console is unreachable")
        process.send_signal(signal.SIGCONT)
        page.until(lambda: not driver.title.startswith("console unreachable"))
        page.leave()


def test_a_proxy_that_swallows_answers_is_told_within_ten_seconds(registry, settings, driver):
    with window(driver, settings()) as direct, swallowing(direct.url) as (url, swallow):
        page = Page(driver, url)
        page.open()
        page.shows("broker-a")
        swallow.set()
        begun_s = time.monotonic()
        page.until(lambda: driver.title.startswith("console unreachable"))
        assert time.monotonic() - begun_s < TOLD_WITHIN_S


@contextmanager
def swallowing(url):
    """A proxy of a console that passes everything on until the event is set, and then nothing more to the browser."""
    host, port = url.removeprefix("http://").split(":")

    def passed(source, target, is_answer):
        with suppress(OSError), source, target:
            while data := source.recv(65_536):
                if not (is_answer and swallow.is_set()):
                    target.sendall(data)

    def serve(server):
        with suppress(OSError):
            while True:
                peer = server.accept()[0]
                other = socket.create_connection((host, int(port)))
                for source, target, is_answer in ((peer, other, False), (other, peer, True)):
                    given = (source.dup(), target.dup(), is_answer)
                    threading.Thread(target=passed, args=given, daemon=True).start()
                peer.close()
                other.close()

    swallow = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", swallow


def test_the_present_is_asked_without_an_epoch_and_nothing_of_the_past_before_somebody_looks_at_it(page, registry):
    page.open()
    page.shows("broker-a")
    for number in range(3):
        registry.now_ms += 1_000
        registry.register(f"10.0.9.{number}:10911", "c1", f"new-{number}")
        page.shows(f"new-{number}")
    asked = page.driver.execute_script("return performance.getEntriesByType('resource').map((one) => one.name)")
    assert [each for each in asked if "epoch=" in each or "at=" in each] == []


def test_while_a_past_moment_is_read_nothing_of_the_present_stands_under_its_date(page, registry):
    registry.now_ms += 60_000
    registry.expire(A)
    page.open()
    page.until(lambda: page.find("#verdict.critical"))
    page.driver.execute_script(
        "window.fetch = () => new Promise(() => {});"  # no answer
    )
    page.driver.execute_script("location.hash = '#/?epoch=2'")
    page.until(lambda: "Reading the state at this time" in page.find("#verdict")[0].text)
    assert not page.find("#verdict.critical")
    assert page.find("main")[0].text == ""
    assert page.driver.title.startswith("past")
    assert page.find("#icon[href='icon.svg']")


def test_brokers_that_are_late_are_in_the_title_and_the_icon_is_amber(page, registry):
    registry.now_ms = now_ms() - 96_000
    registry.register(A, "c1", "broker-a")
    registry.register(C, "c1", "broker-c")
    ticks(registry, 31, 3_000)
    for address in registry.rules.view().live.keys() - {A}:
        registry.command(BrokerHeartbeat(broker_addr=address), publish=False)
    ticks(registry, 1, 3_000)
    registry.publish()
    page.open()
    page.until(lambda: page.driver.title.startswith("broker-a master late"))
    assert page.find("#icon[href='icon-warning.svg']")


BROKERS = 60


@pytest.fixture
def crowd(tmp_path, settings, driver):
    """60 brokers of 30 groups in three clusters and zones."""
    registry = PublishedRegistry(str(tmp_path / "crowd"), now_ms() - 600_000)
    publish_crowd(registry, BROKERS * 3, topics=90, topics_a_broker=6)
    with window(driver, settings(delta__root=registry.root)) as page:
        page.registry = registry
        yield page
        assert page.errors == []


def test_the_link_of_a_cause_leads_to_exactly_its_brokers(crowd):
    registry = crowd.registry
    for number in (6, 7, 8, 9, 24, 25, 26, 27):  # of zone-1, ten minutes before the others of it
        registry.rules.expire(address_of(number), registry.now_ms)
    registry.publish()
    registry.now_ms += 300_000
    for number in range(0, 180):
        if zone_of(number) == "zone-1" and cluster_of(number) != "cluster-0" and number > 60:
            registry.rules.expire(address_of(number), registry.now_ms)
    registry.publish()
    crowd.open()
    crowd.shows("Problems")
    causes = [
        (each.text, each.find_elements("css selector", ".names a[href*='cause=']"))
        for each in crowd.find(".troubles > li")
    ]
    [(text, links)] = [each for each in causes if each[1]][:1]
    count = int(text.split()[0])
    links[0].click()
    crowd.shows(f"{count} brokers")


def test_groups_are_counted_once_in_a_cluster_whose_slaves_are_in_another_zone(crowd):
    for number in range(1, 180, 2):
        place = (address_of(number), cluster_of(number), name_of(number), number % 2)
        crowd.registry.register(*place, zone_name="zone-9", publish=False)
    crowd.registry.publish()
    crowd.open()
    crowd.shows("Clusters by zones")
    assert [each.text for each in crowd.find(".matrix tbody th small")] == ["30 broker groups"] * 3


NOTICES = """
window.notices = [];
window.Notification = class { constructor(_, { body }) { window.notices.push(body); window.last = this; } close() {} };
window.Notification.permission = "granted";
"""


def test_a_notice_comes_when_more_is_lost_and_when_all_is_well_and_leads_to_its_moment(page, registry):
    registry.now_ms = now_ms()
    registry.register("10.0.0.7:10911", "c1", "broker-c")
    page.open()
    page.shows("broker-c")
    page.driver.execute_script(NOTICES)
    page.hook("hide")
    notices = lambda: page.driver.execute_script("return window.notices")  # noqa: E731
    registry.expire(A)
    page.until(lambda: len(notices()) == 1)
    registry.now_ms += 1_000
    registry.expire("10.0.0.7:10911")  # twice as many are down
    page.until(lambda: len(notices()) == 2)
    registry.now_ms += 1_000
    registry.register(A, "c1", "broker-a", topics=("TopicA", "Shared"))
    registry.register("10.0.0.7:10911", "c1", "broker-c")
    page.until(lambda: notices()[-1].startswith("Well again."))
    page.driver.execute_script("window.last.onclick()")
    page.until(lambda: "epoch=" in page.driver.current_url)


def test_a_problem_is_acknowledged_for_some_hours(page, registry):
    registry.now_ms = now_ms()
    registry.expire(A)
    page.open()
    page.until(lambda: page.find(".troubles .commands button"))
    page.find(".troubles .commands button")[0].click()
    page.until(lambda: page.find("dialog#command input[name=hours]"))
    assert page.find("dialog#command input[name=hours]")[0].get_attribute("value") == "2"


def test_the_track_of_the_present_is_a_strip_until_somebody_asks_for_a_time(page):
    page.open()
    page.until(lambda: page.find("#time.calm .rail"))
    assert page.find(".rail")[0].size["height"] == 28
    assert not page.find("#time .buttons")[0].is_displayed()
    page.open_track()
    page.until(page.find("#time .buttons")[0].is_displayed)
    page.open("#/?epoch=2")
    page.until(lambda: page.find("#time .buttons")[0].is_displayed() and "Back to now" in page.find("#past")[0].text)


@pytest.fixture
def dark(driver):
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    )
    yield
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {})


def test_the_theme_can_be_chosen(page, dark):
    page.open()
    ink = page.colour("body", "color")
    page.find("#look button")[0].click()
    page.until(lambda: page.colour("body", "color") != ink)
    page.driver.execute_script("localStorage.clear()")


def test_on_a_phone_the_first_problem_is_within_the_first_400_pixels(crowd):
    lose_zone(crowd.registry, BROKERS * 3, "zone-1", 121_000)
    crowd.registry.now_ms = now_ms()
    crowd.registry.publish()
    with crowd.phone(390, 844):
        crowd.open()
        crowd.until(lambda: crowd.find(".troubles > li"))
        assert crowd.find(".troubles > li")[0].location["y"] < 400


def test_names_that_are_written_from_right_to_left_and_control_characters_do_not_turn_a_sentence(page, registry):
    registry.register(B, "c1", "שלום", topics=("a\u202eb",))
    page.open()
    page.until(lambda: [each.text for each in page.find("main h3 bdi")] == ["שלום"])
    page.open("#/topics")
    page.shows("a\\u202eb")


def test_two_moments_of_the_address_are_compared(page):
    page.open("#/compare?from=2&to=3")
    page.shows("Changes by table")
    assert "snapshot 2" in page.text
    assert "snapshot 3" in page.text


def test_links_lead_to_other_tools_by_the_templates_of_the_settings(registry, settings, driver):
    links = {
        "links__broker": "https://grafana.example/d?var={address}&of={broker}",
        "links__topic": "https://lag.example/{topic}",
    }
    with window(driver, settings(**links)) as page:
        page.open("#/broker/broker-a")
        page.until(lambda: page.find("a.outward"))
        assert (
            page.find("a.outward")[0].get_attribute("href")
            == f"https://grafana.example/d?var={A.replace(':', '%3A')}&of=broker-a"
        )
        page.open("#/topic/TopicA")
        page.until(lambda: page.find("a.outward[href='https://lag.example/TopicA']"))


def test_a_wall_shows_the_health_line_the_clusters_and_the_curve_alone(page):
    page.open("?kiosk#/")
    page.until(lambda: page.find("#verdict a"))
    shown = {
        name
        for name in ("#verdict", ".rail", ".bar", ".figures", "[data-key=events]")
        if page.find(name)[0].is_displayed()
    }
    assert shown == {"#verdict", ".rail"}
    assert page.find(".group")[0].is_displayed()


def test_who_comes_back_is_led_to_what_changed_since_the_last_look(page, registry):
    page.open()
    page.shows("broker-a")
    seen = "JSON.stringify({epoch: 2, atMs: Date.now() - 3_600_000})"
    page.driver.execute_script(f"localStorage.setItem('namesrv-stream.looked', {seen})")
    page.open()
    page.until(lambda: "What changed since you last looked (1h ago)" in page.text)
    page.find(".title a[href*='with=2']")[0].click()
    page.shows("Changes by table")


def test_chosen_rows_are_copied(page):
    page.open("#/brokers")
    page.until(lambda: page.find("main tbody tr"))
    [choose] = [each for each in page.find(".foot button") if each.text == "Choose rows"]
    choose.click()
    page.until(lambda: page.find("td.pick input"))
    page.find("td.pick input")[0].click()
    page.driver.execute_script("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    [copy] = [each for each in page.find(".foot button") if each.text == "Copy chosen rows"]
    copy.click()
    page.until(lambda: page.driver.execute_script("return window.copied"))
    head, row = page.driver.execute_script("return window.copied").split("\n")
    assert (head.split("\t")[:2], row.split("\t")[:2]) == (["broker", "role"], ["broker-a", "master"])


def test_what_if_a_broker_group_or_a_zone_was_gone_is_told_before_it_is(page, registry):
    def links(text):
        return page.driver.find_elements("link text", text)

    registry.register(C, "c1", "broker-c", topics=("TopicC",), zone_name="z3")
    page.open("#/broker/broker-c")
    page.until(lambda: links("What if broker-c is gone?"))
    links("What if broker-c is gone?")[0].click()
    page.shows("TopicC loses its route.")
    assert page.driver.current_url.endswith("#/impact/broker-c")
    page.open("#/resilience")
    page.until(lambda: links("zone z3"))
    links("zone z3")[0].click()
    page.shows("If zone z3 was gone")
    page.shows("TopicC loses its route.")
