"""The console and other sites: none of them searches, by whatever a browser sends for it."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from flows.cli.console import Answers, console, page
from schemas.errors import ConfigError
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


def test_a_proxy_serves_the_page_at_its_own_address() -> None:
    """Requests that a proxy passes on with its own name and origin are answered; those of any other are refused."""
    with serving(lambda _: Answers([], None), "https://console.example.com") as port:
        ours = {"Host": "console.example.com", "Origin": "https://console.example.com", "Sec_Fetch_Site": "same-origin"}
        assert post(port, SEARCH, **ours).status == 200
        # A proxy may put the console's address into the one header, and not into the other.
        assert post(port, SEARCH, **ours | {"Host": f"127.0.0.1:{port}"}).status == 200
        assert post(port, SEARCH, **ours | {"Origin": "https://other.example.com"}).status == 403
        assert post(port, SEARCH, **ours | {"Host": "other.example.com"}).status == 421
        assert post(port, SEARCH, **ours | {"Sec_Fetch_Site": "cross-site"}).status == 403
    with serving(lambda _: Answers([], None)) as port:
        assert post(port, SEARCH, Host="console.example.com").status == 421


@pytest.mark.parametrize("origin", ["console.example.com", "https://Console.example.com", "https://a/b", "ftp://a", ""])
def test_an_address_that_is_no_origin_is_refused(origin: str) -> None:
    """Before anything is read or served."""
    with pytest.raises(ConfigError, match="--origin: expected a scheme and a host"):
        console(origin=origin)
