"""The site: it is built without a warning, loads nothing from elsewhere, and its generated pages are fresh."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.site import command_line, configuration
from docs.site.__main__ import pages
from schemas.fields import walk_fields
from schemas.settings import Settings
from tests.docs.pages import PAGES, ROOT

LOADED = re.compile(
    r"""<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=["']?((?:https?:)?//[^"'> ]+)|url\(["']?(https?:[^)]+)"""
)
"""The files that a browser fetches for a page: of tags that load, and of style sheets."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it."""
    built = tmp_path_factory.mktemp("site")
    recipe = re.search(
        r"(?m)^docs:.*\n(?:\t.*\n)*?\t\$\(VENV\)/bin/python (-m sphinx .*) -d \S+ \. \S+$",
        (ROOT / "Makefile").read_text(),
    )
    assert recipe is not None
    command = [sys.executable, *recipe[1].split(), "-d", str(built / "doctrees"), ".", str(built / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return built / "site"


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_every_page_is_in_it(site: Path) -> None:
    """It is built strictly: a broken link or anchor, or a page that the contents lack, would be an error."""
    for page in PAGES:
        assert (site / page.relative_to(ROOT).with_suffix(".html")).exists(), page
    assert "docs/index.html" in (site / "index.html").read_text()


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    """No page, style sheet or script names a font, a script or an image of another host."""
    files = [file for kind in ("html", "css") for file in site.rglob(f"*.{kind}")]
    assert len(files) > len(PAGES)
    for file in files:
        assert LOADED.findall(file.read_text()) == [], file
    assert LOADED.findall('<script async src="https://cdn.example/a.js">')
    assert LOADED.findall("@font-face{src:url(https://fonts.example/a.woff)}")


def test_the_contents_have_every_page() -> None:
    """Each once: the site would have no other, and building it says so only at night."""
    contents = (ROOT / "docs" / "site" / "contents.yaml").read_text()
    listed = re.findall(r"(?m)^(?:root| *- (?:file|glob)): (\S+)$", contents)
    found = [str(page.relative_to(ROOT)) for name in listed for page in ROOT.glob(f"{name}.md")]
    assert sorted(found) == sorted(str(page.relative_to(ROOT)) for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pictures_are_of_the_repository(page: Path) -> None:
    """No page shows a picture of another host."""
    assert re.findall(r"!\[[^\]]*\]\(\s*(?:https?:)?//|<img[^>]*(?:https?:)?//", page.read_text(encoding="utf-8")) == []


def test_generated_pages_are_fresh() -> None:
    """`python -m docs.site` would change nothing."""
    for file, text in pages().items():
        assert file.read_text(encoding="utf-8") == text, f"{file}: run `python -m docs.site`"


def test_every_key_and_every_option_is_on_its_page() -> None:
    """Each once, a key or an option with its values and its default, as a reader looks them up."""
    keys = " ".join(configuration.page().split())
    assert (
        "**`kafka.session_timeout`** (number from 6 to 10, **`6.0`**): Seconds without heartbeats until the group"
        " removes a member." in keys
    )
    assert "## `policies.sources` Source -> its policy, which inherits nothing from `default`." in keys
    assert "Its keys are those of `policies.default`." in keys
    named = re.findall(r"\*\*`([\w.<>]+)`\*\*(?= \(|, \*\*|\. )", keys)
    assert len(set(named)) == len(named)
    every = {".".join((*path[:-1], field.alias or path[-1], "")) for path, field in walk_fields(Settings)}
    named += re.findall(r"# `([\w.]+)` [^#]* Its keys are those of ", keys)
    paths = [f"{name}." for name in named]
    missing = [each for each in every if not any(path.startswith(each) or each.startswith(path) for path in paths)]
    assert missing == []
    options = command_line.page()
    assert "- **`--limit`** (integer from 1 to 200, default `10`): Number of results." in options
    assert (
        "(one of `kafka`, `qdrant`, `embedder`, `sparse_encoder`, `reranker`, `chat`, `clock`): Check this part alone"
        in " ".join(options.split())
    )
