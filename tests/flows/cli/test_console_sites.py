"""The console and other sites: none of them searches, by whatever a browser sends for it."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from flows.cli.console import Answers, page
from tests.flows.cli.browsing import SEARCH, ask, post, serving


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "same-origin, cross-site"])
def test_another_site_searches_by_no_request(site: str) -> None:
    """Neither by JSON nor by a script's or an image's address; the page itself and typed addresses are served."""
    asked: list[Sequence[Mapping[str, Any]]] = []

    def note(searches: Sequence[Mapping[str, Any]]) -> Answers:
        asked.append(searches)
        return Answers([], None)

    with serving(note) as port:
        assert post(port, SEARCH, Sec_Fetch_Site=site).status == 403
        assert ask(port, "GET", "/recipes", Sec_Fetch_Site=site).status == 403
        assert asked == []
        assert ask(port, "GET", "/recipes", Sec_Fetch_Site="same-origin").status == 200
        assert ask(port, "GET", "/", Sec_Fetch_Site="none").body == page().encode()
        assert post(port, SEARCH, Sec_Fetch_Site="same-origin").status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_searches_by_no_navigation(site: str) -> None:
    """Its link opens the page, which fills the search in and leaves it to the user, under the same policy."""
    with serving(lambda _: Answers([], None)) as port:
        linked, own = (ask(port, "GET", "/", Sec_Fetch_Site=each) for each in (site, "none"))
    assert linked.status == 200
    assert linked.body == own.body.replace(b"<body>", b"<body data-linked>")
    assert linked.body != own.body
    assert linked.headers["Content-Security-Policy"] == own.headers["Content-Security-Policy"]
    [script] = re.findall("<script>(.*)</script>", own.body.decode(), re.DOTALL)
    assert re.search(r'if \("linked" in document\.body\.dataset\) fill\(\);\s+else follow\(\);', script)
