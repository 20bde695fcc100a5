"""The page in a real Chromium. Debian: apt-get install chromium chromium-driver."""

import shutil

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from namesrv_stream.console import periods
from namesrv_stream.console.server import BackgroundConsole
from namesrv_stream.rules.requests import PutKvConfig, WipeWritePerm
from tests.cli.registry import PublishedRegistry
from tests.console.conftest import A, C

pytestmark = pytest.mark.full
LIMIT_S = 60


class Page:
    """One window on one console."""

    def __init__(self, driver, url):
        self.driver = driver
        self.url = url

    def open(self, address="#/"):
        self.driver.get("about:blank")
        self.driver.get(f"{self.url}/{address}")
        self.until(lambda: self.find("main h1, main .problem"))

    def find(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    @property
    def text(self):
        return self.find("main")[0].text

    @property
    def moment(self):
        return self.find("#time .moment")[0].text

    def until(self, condition):
        return WebDriverWait(self.driver, LIMIT_S, ignored_exceptions=[Exception]).until(lambda _: condition())

    def shows(self, text):
        self.until(lambda: text in self.text)

    def press(self, key):
        self.find("[role=slider]")[0].send_keys(key)

    @property
    def errors(self):
        return [each["message"] for each in self.driver.get_log("browser") if each["level"] == "SEVERE"]


@pytest.fixture(scope="module")
def driver():
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture
def page(client, driver):
    page = Page(driver, client.url)
    yield page
    errors = page.errors
    driver.get("about:blank")  # a page that outlives its server would complain of it in the next test
    driver.get_log("browser")
    assert errors == []


def test_the_overview_follows_the_present(page, registry):
    page.open()
    page.shows("broker-a")
    assert "Now" in page.moment
    registry.register(C, "c1", "broker-c", topics=("T",))
    page.shows("broker-c")
    registry.expire(A)
    page.shows("Gone in the last hour")


def test_an_address_that_is_gone_stays_beside_the_others_of_its_name(page, registry):
    registry.register(C, "c1", "broker-a", broker_id=1)
    registry.expire(A)
    page.open()
    page.until(lambda: [A in each.text for each in page.find(".group .ghost")] == [True])
    assert "Gone in the last hour" not in page.text


def test_the_slider_moves_the_page_to_the_moment_and_the_address_keeps_it(page, registry):
    registry.now_ms += 1000
    registry.expire(A)
    page.open()
    page.until(lambda: page.find(".rail path.left[d^=M]"))
    page.press(Keys.ARROW_LEFT)
    page.press(Keys.ARROW_LEFT)
    page.until(lambda: "epoch=3" in page.driver.current_url)
    page.until(lambda: A in page.text and "Gone in the last hour" not in page.text and "1 broker came" in page.moment)
    shared = page.driver.current_url.partition("/#")[2]
    page.open(f"#{shared}")
    page.shows(A)
    page.press(Keys.END)
    page.until(lambda: "Now" in page.moment and "Gone in the last hour" in page.text)


def test_every_moment_is_reached_where_marks_stand_for_several(page, client, registry, monkeypatch):
    monkeypatch.setattr(periods, "MOST_MARKS", 3)
    for number in range(10):
        registry.now_ms += 100
        registry.command(PutKvConfig(namespace="NS", key=f"k{number}", value="v"))
    page.open()
    page.until(lambda: page.find(".rail path.asked[d^=M]"))
    page.press(Keys.ARROW_LEFT)  # from the present to the newest epoch
    for key, epochs in ((Keys.ARROW_LEFT, range(13, 2, -1)), (Keys.ARROW_RIGHT, range(2, 13))):
        for epoch in epochs:
            page.until(lambda epoch=epoch: page.driver.current_url.endswith(f"epoch={epoch}"))
            page.press(key)
    page.until(lambda: page.driver.current_url.endswith("epoch=13"))
    page.press(Keys.SHIFT + Keys.ARROW_LEFT)
    page.until(lambda: page.driver.current_url.endswith("epoch=12"))
    marks = client.get("/v1/timeline?since=24h").json["marks"]
    inside = next(mark["firstEpoch"] for mark in marks if mark.get("epochs", 1) > 2) + 1
    page.open(f"#/overview?epoch={inside}")
    page.driver.refresh()  # all marks stand for several again
    page.until(lambda: "close together" in page.moment)
    page.press(Keys.ARROW_LEFT)
    page.until(lambda: page.driver.current_url.endswith(f"epoch={inside - 1}"))
    [number] = page.find("#time input[type=number]")
    number.clear()
    number.send_keys("1" + Keys.ENTER)  # the claim of the run, at which nothing changed
    page.until(lambda: page.driver.current_url.endswith("epoch=1") and "Epoch 1" in page.moment)


def test_a_topic_shows_its_route_and_why(page, registry):
    registry.command(WipeWritePerm(broker_name="broker-a", requested_by="ann", reason="disk full"))
    page.open("#/topic/TopicA")
    page.shows("(reason: disk full)")
    assert "R--" in page.text
    page.open("#/topic/TopicA?epoch=2")
    page.shows("RW-")


def test_two_moments_are_compared(page):
    page.open("#/compare?with=2&epoch=3")
    page.shows("broker-b")
    assert page.find("b.came")
    page.open("#/churn")
    page.shows("Up and down")


@pytest.mark.parametrize("view", ["overview", "topics", "broker/broker-a", "topic/TopicA", "churn", "compare"])
def test_a_narrow_window_does_not_scroll_sideways(page, view):
    page.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    )
    page.open(f"#/{view}")
    assert page.driver.execute_script("return document.documentElement.scrollWidth") <= 390
    page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_names_of_brokers_are_text_and_never_markup(page, registry):
    registry.register(C, "<img src=x onerror=alert(1)>", "<script>alert(2)</script>", topics=("<b>bold</b>",))
    page.open()
    page.shows("<script>alert(2)</script>")
    page.open("#/topics")
    page.shows("<b>bold</b>")
    assert not page.find("main img, main script, main b.bold")


def test_a_command_asks_for_its_reason_and_says_what_became_of_it(page):
    page.open("#/broker/broker-a")
    page.until(lambda: page.find("main .card .buttons button"))
    page.find("main .card .buttons button")[0].click()
    page.find("dialog input")[0].send_keys("disk full", Keys.ENTER)
    page.until(lambda: "Kafka at" in page.find("dialog")[0].text)
    assert len(page.errors) == 1  # Chromium reports the answer 503


def test_an_empty_registry_says_so(tmp_path, settings, driver):
    PublishedRegistry(str(tmp_path / "empty"), 1_700_000_000_000)
    with BackgroundConsole(settings(delta__root=str(tmp_path / "empty"))) as console:
        page = Page(driver, console.url)
        page.open()
        page.shows("No broker is registered")


def test_tables_that_are_not_there_are_said(tmp_path, settings, driver):
    with BackgroundConsole(settings(delta__root=str(tmp_path / "none"))) as console:
        page = Page(driver, console.url)
        page.open()
        page.shows("holds no registry")
