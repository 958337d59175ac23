"""A real browser for the console's tests, and the checks that hold for every page."""

import shutil
from collections.abc import Callable
from importlib.resources import files
from typing import Any, Final

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions, Keys
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from tests.flows.cli.browsing import WITHIN, Served
from tests.missing import missing

HEIGHT: Final = 900

_ONE_RENDERER: Final = (
    "--disable-features=SpareRendererForSitePerProcess",
    "--disable-site-isolation-trials",
    "--renderer-process-limit=1",
)
"""Otherwise each page has a new process, and a spare one."""

_LOW_CONTRAST: Final = """
const pixel = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
function parse(text) {
  pixel.clearRect(0, 0, 1, 1);
  pixel.fillStyle = text;
  pixel.fillRect(0, 0, 1, 1);
  return pixel.getImageData(0, 0, 1, 1).data;
}
const linear = (v) => v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
const seen = [];
for (const each of document.querySelectorAll('body *')) {
  const own = [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  if (!own || !each.checkVisibility() || each.closest('.spoken, option, datalist, noscript, [disabled]')) continue;
  let behind = each;
  while (behind && parse(getComputedStyle(behind).backgroundColor)[3] < 255) behind = behind.parentElement;
  const a = light(parse(getComputedStyle(each).color));
  const b = light(parse(getComputedStyle(behind ?? document.body).backgroundColor));
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) seen.push([each.tagName, each.className, each.textContent.slice(0, 30), ratio]);
}
return seen;
"""
"""Texts of less contrast with their ground than WCAG AA asks for, 4.5: axe leaves many undecided."""

_AXE: Final = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
_SERIOUS: Final = """
const done = arguments[0];
axe.run(document).then((found) => done(found.violations.map((each) => [
  each.id, each.impact, each.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)),
])));
"""
"""Findings of axe, which knows the rules of WCAG and others."""


class Browser:
    """Chromium on a served console."""

    def __init__(self, served: Served) -> None:
        """Start; the test skips where chromium or its driver is absent, and fails on CI."""
        binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
        if binary is None or driver is None:
            missing("a browser needs chromium and chromedriver")
        options = ChromeOptions()
        options.binary_location = binary
        for argument in (
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            *_ONE_RENDERER,
        ):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.chrome = Chrome(options=options, service=Service(driver))
        self.served = served
        self._base = served.server.link.partition("#")[0]
        self.chrome.get(served.server.link)
        self.wait(lambda: self.all("#columns select"))

    def size(self, width: int, *, dark: bool = False) -> None:
        """Make the window so wide, light or dark."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        metrics = {"width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        self.chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self.chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})

    def open(self, fragment: str) -> None:
        """Open a link of the console, and wait until the page is quiet."""
        self.chrome.get("about:blank")
        self.chrome.get(f"{self._base}#{fragment}")
        self.quiet()

    def quiet(self) -> None:
        """Wait until no search is under way."""
        self.wait(lambda: self.all("#view > *") and not self.all("#view[aria-busy]"))

    def wait(self, condition: Callable[[], Any]) -> Any:
        """Wait for what must come; an element that the page has replaced is looked for again."""
        return WebDriverWait(self.chrome, WITHIN, 0.03, [StaleElementReferenceException]).until(lambda _: condition())

    def all(self, selector: str) -> list[WebElement]:
        """The elements of a CSS selector."""
        return self.chrome.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        """The first element of a CSS selector, once it is there."""
        found: list[WebElement] = self.wait(lambda: self.all(selector))
        return found[0]

    def press(self, keys: str) -> None:
        """Press keys, wherever the focus is."""
        self.chrome.switch_to.active_element.send_keys(keys)

    def text(self, selector: str) -> str:
        """The text of an element, once it has one."""
        found: str = self.wait(lambda: next((each.text for each in self.all(selector) if each.text.strip()), None))
        return found

    def says(self, selector: str, words: str) -> None:
        """Wait until an element says these words."""
        self.wait(lambda: any(words in each.text for each in self.all(selector)))

    def run(self, script: str, *given: Any) -> Any:
        """The value of a script."""
        return self.chrome.execute_script(script, *given)

    def search(self, text: str) -> None:
        """Search as a user does: /, the text, Enter."""
        self.press(Keys.ESCAPE)
        self.press("/")
        field = self.one("#text")
        self.wait(lambda: self.chrome.switch_to.active_element == field)
        field.clear()
        field.send_keys(text, Keys.ENTER)
        self.wait(lambda: self.run("return document.title").startswith(text))
        self.quiet()

    def check(self) -> None:
        """Hold the page to what every page keeps: nothing beyond its width, axe finds nothing, no error, no JSON."""
        wide, inner = self.run("return [document.documentElement.scrollWidth, innerWidth]")
        assert wide <= inner, f"{wide} of {inner}: {self.run(_BEYOND)}"
        assert self.run(_LOW_CONTRAST) == []
        self.run(_AXE)
        assert self.chrome.execute_async_script(_SERIOUS) == []
        assert self.run("return window.hit ?? null") is None
        shown = self.run("return document.getElementById('view').innerText")
        assert '{"' not in shown
        assert "undefined" not in shown
        assert "[object" not in shown
        logged = self.chrome.get_log("browser")  # type: ignore[no-untyped-call]
        errors = [entry["message"] for entry in logged if entry["level"] == "SEVERE"]
        assert [each for each in errors if "400" not in each] == []

    def close(self) -> None:
        """End the browser."""
        self.chrome.quit()


_BEYOND: Final = """
return [...document.querySelectorAll('body *')]
  .filter((each) => each.getBoundingClientRect().right > innerWidth + 1 && !each.closest('.scroll'))
  .slice(0, 5).map((each) => each.outerHTML.slice(0, 100));
"""
