"""The console and other sites: none of them searches, by whatever a browser sends for it."""

from pathlib import Path

import pytest

from flows.cli.console.server import console
from schemas.errors import ConfigError
from tests.flows.cli.browsing import SEARCH, Asked, Served, ask, nothing, serving, workbench


@pytest.mark.parametrize("host", ["evil.example:{}", "127.0.0.1", "127.0.0.1:1", "evil.localhost:{}", ""])
def test_another_hosts_name_is_refused(served: Served, asked: Asked, host: str) -> None:
    """A site whose name leads to loopback reads neither the page nor the recipes, and asks nothing."""
    named = host.format(served.port)
    assert [ask(served.port, "GET", path, Host=named).status for path in ("/", "/page/main.js")] == [421, 421]
    assert served.get("begin", Host=named).status == 421
    assert served.post("search", SEARCH, Host=named).status == 421
    assert asked == []


def test_localhost_is_this_machine(served: Served, asked: Asked) -> None:
    """The page searches under either name of loopback."""
    for name in (f"localhost:{served.port}", f"127.0.0.1:{served.port}", f"LOCALHOST:{served.port}"):
        assert ask(served.port, "GET", "/", Host=name).status == 200
        assert served.post("search", SEARCH, Host=name, Origin=f"http://{name.lower()}").status == 200
    assert len(asked) == 3


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{}", "http://127.0.0.1:1"])
def test_another_origin_is_refused(served: Served, asked: Asked, origin: str) -> None:
    """A page of another site, or of another server on this machine, has nothing asked."""
    assert served.post("search", SEARCH, Origin=origin.format(served.port)).status == 403
    assert asked == []


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_what_browsers_send_without_asking_is_refused(served: Served, asked: Asked, kind: str) -> None:
    """Only JSON is a search; a form of another site can't be."""
    assert served.post("search", SEARCH, Content_Type=kind).status == 415
    assert asked == []


@pytest.mark.parametrize("token", ["", "x", "é"])
def test_a_request_without_the_links_token_is_refused(served: Served, asked: Asked, token: str) -> None:
    """Another user of the machine, or a link of an earlier start, neither reads nor searches."""
    from flows.cli.console.server import TOKEN

    given = {TOKEN: token.encode().decode("latin-1")}
    assert served.get("begin", **given).status == 401
    assert served.post("search", SEARCH, **given).status == 401
    assert asked == []
    assert served.server.link.partition("#token=")[2] == served.console.token


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "same-origin, cross-site"])
def test_another_site_searches_by_no_request(served: Served, asked: Asked, site: str) -> None:
    """Neither by JSON nor by a script's or an image's address; the page itself and typed addresses are served."""
    assert served.post("search", SEARCH, Sec_Fetch_Site=site).status == 403
    assert served.get("begin", Sec_Fetch_Site=site).status == 403
    assert asked == []
    assert served.get("begin", Sec_Fetch_Site="same-origin").status == 200
    assert served.post("search", SEARCH, Sec_Fetch_Site="same-origin").status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_searches_by_no_navigation(served: Served, site: str) -> None:
    """Its link opens the page, which fills the search in and leaves it to the user, under the same policy."""
    linked, own = (ask(served.port, "GET", "/", Sec_Fetch_Site=each) for each in (site, "none"))
    assert linked.status == 200
    assert linked.body == own.body.replace(b"<body>", b"<body data-linked>")
    assert linked.body != own.body
    assert linked.headers["content-security-policy"] == own.headers["content-security-policy"]


def test_a_proxy_serves_the_page_at_its_own_address(tmp_path: Path) -> None:
    """Requests that a proxy passes on with its own name and origin are answered, without a token: it authenticates."""
    with serving(workbench(tmp_path, nothing), "https://console.example.com") as served:
        ours = {"Host": "console.example.com", "Origin": "https://console.example.com", "Sec_Fetch_Site": "same-origin"}
        assert served.post("search", SEARCH, **ours).status == 200
        # A proxy may put the console's address into the one header, and not into the other.
        assert served.post("search", SEARCH, **ours | {"Host": f"127.0.0.1:{served.port}"}).status == 200
        assert served.post("search", SEARCH, **ours | {"Origin": "https://other.example.com"}).status == 403
        assert served.post("search", SEARCH, **ours | {"Host": "other.example.com"}).status == 421
        assert served.post("search", SEARCH, **ours | {"Sec_Fetch_Site": "cross-site"}).status == 403
        assert served.server.link == f"http://127.0.0.1:{served.port}/"


@pytest.mark.parametrize("origin", ["console.example.com", "https://Console.example.com", "https://a/b", "ftp://a", ""])
def test_an_address_that_is_no_origin_is_refused(origin: str) -> None:
    """Before anything is read or served."""
    with pytest.raises(ConfigError, match="--origin: expected a scheme and a host"):
        console(origin=origin)
