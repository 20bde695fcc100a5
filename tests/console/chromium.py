"""A real Chromium, and one window of it on one console. Debian: apt-get install chromium chromium-driver."""

import shutil
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.console.background import BackgroundConsole

HOOKS = Path(__file__).with_name("hooks.js").read_text()
LIMIT_S = 60
PHONE = 390


@contextmanager
def chromium():
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@contextmanager
def window(driver, settings):
    """A page on a console of its own, which is left before the console ends: it would complain in the next test."""
    with BackgroundConsole(settings) as console:
        page = Page(driver, console.url)
        try:
            yield page
        finally:
            page.leave()


class Page:
    """One window on one console."""

    def __init__(self, driver, url):
        self.driver = driver
        self.url = url

    def open(self, address="#/"):
        self.driver.get("about:blank")
        self.driver.get(f"{self.url}/{address}")
        self.until(lambda: self.find("main h1, main .problem"))

    def leave(self):
        """Go to an empty page, and forget what the browser has logged."""
        self.driver.get("about:blank")
        self.driver.get_log("browser")

    @contextmanager
    def phone(self, width=PHONE, height=800):
        shape = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
        yield
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def hook(self, name):
        self.driver.execute_script(f"{HOOKS}\nwindow.hooks.{name}();")

    def column(self, number):
        return [each.text for each in self.find(f"main tbody td:nth-child({number})")]

    def colour(self, selector, name="background-color"):
        return self.find(selector)[0].value_of_css_property(name)

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

    def open_track(self):
        """Show the track with its controls; of the present it is a strip."""
        self.until(self.find("#time .opener")[0].is_displayed)
        self.find("#time .opener")[0].click()

    def press(self, key):
        self.find("[role=slider]")[0].send_keys(key)

    @property
    def errors(self):
        return [each["message"] for each in self.driver.get_log("browser") if each["level"] == "SEVERE"]
