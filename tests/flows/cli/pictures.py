"""The pictures of the console in the documentation: `python -m tests.flows.cli.pictures` takes them."""

import base64
import io
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from PIL import Image

from tests.flows.cli.chromium import Browser
from tests.flows.cli.console_flow import shop

COLOURS: Final = 96

FOLDER: Final = Path(__file__).parents[3] / "docs" / "how-to" / "images"

_SEARCH: Final = "text=makita+drill+18v&namespace=store"


class Picture(NamedTuple):
    """One picture: its name, the link of its view, a text that must be there, and the window."""

    name: str
    fragment: str
    awaited: str
    width: int = 1280
    dark: bool = False


PICTURES: Final = (
    Picture("console-results", f"{_SEARCH}&panel=why&id=makita-dtd152", "final"),
    Picture("console-first", "", "443"),
    Picture("console-columns", f"{_SEARCH}&b=keyword&b.profile=fast", "RBO"),
    Picture("console-parameters", f"{_SEARCH}&panel=parameters", "coverage", dark=True),
    Picture("console-lost", f"{_SEARCH}&panel=lost", "candidates are not on the page"),
    Picture("console-time", f"{_SEARCH}&panel=time", "deadline"),
    Picture("console-set", "view=sets&namespace=store&b=keyword", "Run and compare"),
    Picture("console-phone", f"{_SEARCH}&b=rrf", "RBO", width=360),
)


def take(browser: Browser, folder: Path, pictures: Sequence[Picture]) -> list[Path]:
    """Take the pictures into a folder."""
    taken = []
    for each in pictures:
        browser.size(each.width, dark=each.dark)
        browser.open(each.fragment)
        browser.says("body", each.awaited)
        shot = browser.chrome.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
        taken.append(folder / f"{each.name}.png")
        # Few colours: a picture is to be small.
        with Image.open(io.BytesIO(base64.b64decode(shot["data"]))) as picture:
            picture.convert("RGB").quantize(COLOURS).save(taken[-1], optimize=True)
    return taken


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, shop(Path(temporary), {}) as served:
        browser = Browser(served)
        take(browser, FOLDER, PICTURES)
        browser.close()
