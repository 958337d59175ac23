"""Tasks of a search engineer in a real browser, from the first page to the YAML: at three widths, light and dark."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
from selenium.webdriver import Keys

from flows.assembly.delivery import connect
from flows.cli.console.columns import to_cards
from operators.delivery.client import ProducerRecord
from operators.evaluation.metrics import parse_qrels
from tests.flows.cli.browsing import Served
from tests.flows.cli.chromium import Browser
from tests.flows.cli.console_flow import shop
from tests.flows.cli.test_experiment import with_kinds
from tests.tiers import sized

pytestmark = pytest.mark.slow

DRILL: Final = "text=makita+drill+18v&namespace=store"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A console of the shop."""
    with shop(tmp_path_factory.mktemp("shop")) as found:
        yield found


@pytest.fixture(scope="module")
def started(served: Served) -> Iterator[Browser]:
    """One browser for all tasks."""
    browser = Browser(served)
    yield browser
    browser.close()


@pytest.fixture
def browser(started: Browser) -> Browser:
    """The browser with a new page, which remembers nothing but the token."""
    started.run(
        "const token = localStorage.getItem('rankstream-token'); localStorage.clear();"
        "localStorage.setItem('rankstream-token', token)"
    )
    return started


def first_page(browser: Browser) -> None:
    """See what is indexed, and follow an example query."""
    browser.open("")
    browser.says("#view", "443")
    browser.says("#view", "store")
    browser.says("#view", "qdrant")
    assert browser.run("return document.activeElement.id") == "text"
    browser.check()
    browser.one(".chip").click()
    browser.wait(lambda: browser.all(".card"))
    browser.open("")
    browser.wait(lambda: len(browser.all("#view section")) > 2)
    browser.says("#view", "Recent queries")
    browser.wait(lambda: browser.run("return document.getElementById('namespace').value") == "store")


def results(browser: Browser) -> None:
    """Search from the keyboard: titles, highlights, fields, parts with a legend, and the wishes that were read."""
    browser.open("namespace=store")
    browser.search("garden hose")
    browser.press("j")
    browser.press("/")
    browser.press(Keys.ESCAPE)
    assert browser.run("return document.getElementById('text').value") == "garden hose"
    assert (
        browser.run("return document.querySelector('.card.current').dataset.id")
        == browser.text(".card .code").split()[0]
    )
    assert browser.text(".card h3") != browser.text(".card .code")
    assert browser.all("mark")
    assert {"keyword"} <= {each.text for each in browser.all(".legend li")}
    assert all(re.fullmatch(r"\d+\.\d{3}", each.text) for each in browser.all(".bar .number") if each.text)
    browser.search("cheapest drill under 100 euro without cable")
    browser.says(".list", "without cable: without cable")
    assert re.search(r"Understood: .*under 100 euro: price\S* .*< 100 EUR", browser.text(".list"))


def filters(browser: Browser) -> None:
    """Search only with a value that a result has, which the link says, and take that back."""
    browser.open("text=makita&namespace=store&fields=brand")
    browser.wait(lambda: browser.all(".fields button"))
    before = len(browser.all(".card"))
    brand = browser.text(".fields button")
    browser.run("document.querySelector('.fields button').click()")
    browser.says("#columns .chip", f"brand: {brand}")
    browser.wait(lambda: browser.all(".card") and {each.text for each in browser.all(".fields button")} == {brand})
    assert "filter=" in browser.chrome.current_url
    browser.run("document.querySelector('#columns .chip').click()")
    browser.wait(lambda: not browser.all("#columns .chip") and len(browser.all(".card")) == before)


def like(browser: Browser) -> None:
    """Search for what is like a result, and unlike another, which the link says; neither is found, until taken back."""
    browser.open(DRILL)
    browser.wait(lambda: browser.all(".card"))
    first, second = browser.run(
        "return [...document.querySelectorAll('.card')].slice(0, 2).map((each) => each.dataset.id)"
    )
    for how, id_ in (("like", first), ("unlike", second)):
        browser.run(f"document.querySelector(\"[aria-label='Search what is {how} {id_}']\").click()")
        gone = f"return document.querySelector('.card') && !document.querySelector('.card[data-id=\"{id_}\"]')"
        browser.wait(partial(browser.run, gone))
    assert [each.text for each in browser.all("#columns .chip")] == [f"like: {first} ×", f"unlike: {second} ×"]
    assert browser.chrome.current_url.count("like=") == 2
    browser.run("document.querySelector('#columns .chip').click()")
    browser.wait(lambda: browser.run(f"return document.querySelector('.card[data-id=\"{first}\"]')"))


def explanation(browser: Browser) -> None:
    """Ask why a result is where it is, and compare it with another one."""
    browser.open(DRILL)
    browser.press("j")
    browser.press("w")
    browser.says("#panel", "final")
    browser.says("#panel .words", "makita")
    browser.one("#compare-with").send_keys(Keys.ARROW_DOWN)
    browser.wait(lambda: len(browser.all(".fall")) == 2)


def missing_document(browser: Browser) -> None:
    """Ask why a document is missing, by its id or words of its title, and follow its rank while parameters change."""
    browser.open(f"{DRILL}&limit=2")
    browser.press("x")
    browser.says("#panel", "candidates are not on the page")
    browser.one("#lost-id").send_keys("mallet-rubber", Keys.ENTER)
    browser.says("#panel", "The document is there, and no leg retrieved it.")
    field = browser.one("#lost-id")
    field.clear()
    field.send_keys("makita drill", Keys.ENTER)
    browser.says("#panel", "Found by these words")
    browser.one("#panel .only button.code").click()
    browser.says("#panel .only", "at rank")
    browser.run("document.querySelectorAll('#panel .only .grades button')[1].click()")
    browser.says("#state", "has grade 1")
    browser.press("u")
    browser.wait(lambda: "has grade 1" not in browser.text("#state"))
    next(each for each in browser.all("#panel button") if each.text == "Change parameters").click()
    browser.says("#panel .only", "at rank")
    browser.one("#p-min").send_keys("1", Keys.TAB)
    browser.says("#panel .only", "It was lost at min_relevance")


def columns(browser: Browser) -> None:
    """Put another recipe beside the first: overlap, moves, tabs where there is no room."""
    browser.open(DRILL)
    browser.one("#add").click()
    browser.wait(lambda: len(browser.all(".column-setting select")) >= 4)
    browser.quiet()
    browser.one("[aria-label='recipe of column B']").send_keys("keyword")
    browser.says("#view", "RBO")
    browser.wait(lambda: "b=keyword" in browser.chrome.current_url)
    if browser.run("return innerWidth") < 600:
        browser.says(".tabs", "keyword")
        browser.run("document.querySelector(\".tabs [data-tab='1']\").click()")
        assert len([each for each in browser.all(".list") if each.is_displayed()]) == 1


def configuration(browser: Browser) -> None:
    """Compare with another configuration file, whose recipe the flow lacks."""
    browser.open(f"{DRILL}&b=plain&b.config=other")
    browser.says("#view", "RBO")
    assert "plain" in browser.run("return document.getElementById('view').textContent")


def parameters(browser: Browser) -> None:
    """Move a slider: the list changes at once, and the link has the value; copy it as YAML."""
    browser.open(DRILL)
    before = browser.text(".bar .number")
    browser.press("p")
    field = browser.one("#p-coverage-weight")
    field.clear()
    field.send_keys("3", Keys.TAB)
    browser.wait(lambda: browser.text(".bar .number") != before)
    assert "coverage" in browser.chrome.current_url
    browser.all("#panel .toolbar button")[0].click()
    browser.says("#panel pre", "weight: 3")
    browser.chrome.refresh()
    browser.wait(lambda: browser.all(".card"))
    assert browser.text(".bar .number") != before


def time_of_query(browser: Browser) -> None:
    """See where the time went."""
    browser.open(DRILL)
    browser.press("t")
    browser.says("#panel", "until its deadline")
    browser.says("#panel", "keyword")


def judgements(browser: Browser) -> None:
    """Grade results from the keyboard, and undo the last one; the file is qrels."""
    browser.open("text=hose+reel&namespace=store")
    browser.press("j")
    id_ = browser.run("return document.querySelector('.card.current').dataset.id")
    browser.press("3")
    browser.says("#state", "has grade 3")
    kept = browser.served.bench.judgements.qrels
    assert {id_: 3} in parse_qrels(kept.read_text().splitlines()).values()
    browser.press("u")
    browser.says("#state", "was taken back")
    assert {id_: 3} not in parse_qrels(kept.read_text().splitlines()).values()


def query_set(browser: Browser) -> None:
    """Run the query set over two columns, and go to the query that differs most; a grade makes the figures old."""
    judged = browser.served.bench.judgements
    few = dict(list(judged.grades.items())[:8])
    asked = judged.set[next(iter(few))]
    every, judged.grades = judged.grades, few
    try:
        browser.open("view=sets&namespace=store&b=keyword")
        browser.one("#run").click()
        browser.says("#view", "95 % interval")
        browser.chrome.refresh()
        browser.says("#view", "95 % interval")
        browser.one("tbody a").click()
        browser.wait(lambda: browser.all(".card") or browser.all(".empty"))
        judged.judge(asked["text"], asked["namespace"], "another", 1)
        browser.open("view=sets&namespace=store&b=keyword")
        browser.wait(lambda: browser.all("tbody a"))
        assert "95 % interval" not in browser.text("#view")
    finally:
        judged.grades = every


def rules(browser: Browser) -> None:
    """Write a rule, read what is wrong at its place, try it beside those in force, put it, edit and delete it."""
    browser.open("view=rules&namespace=store&text=makita+drill+18v")
    browser.says("#view", "No rules yet")
    browser.one("#rule-id").send_keys("mallet")
    field = browser.one("#rule-text")

    def write(position: int) -> None:
        field.clear()
        pin = f'{{"pin": [{{"id": "mallet-rubber", "position": {position}}}]}}'
        field.send_keys(f'{{"when": {{"contains": "makita"}}, "then": {pin}}}')

    write(0)
    browser.one("#rule-try").click()
    browser.says("#rule-wrong", "then.pin.0.position")
    assert browser.run("return getSelection().toString()") == '"position"'
    write(1)
    browser.one("#rule-try").click()
    browser.says("#columns", "tries mallet")
    browser.wait(lambda: len(browser.all(".list")) == 2)
    if browser.run("return innerWidth") < 600:
        browser.run("document.querySelector(\".tabs [data-tab='1']\").click()")
    browser.says("#view .list", "pinned by mallet")
    browser.check()
    browser.one("#to-rules").click()
    browser.one("#rule-put").click()
    browser.says("tbody", "pin mallet-rubber at 1")
    browser.one("tbody button").click()
    browser.says("#view form", "pin mallet-rubber at 1.")
    browser.one("#rule-delete").click()
    browser.says("#view", "No rules yet")


def experiments(browser: Browser) -> None:
    """See which recipe users prefer so far, by namespace and kind of query, and that another one has no query yet."""
    topics = browser.served.bench.main.settings.kafka.topics
    comparisons, preferences = with_kinds(300)
    with closing(connect(browser.served.bench.main.settings.kafka).plain_producer()) as producer:
        for topic, records in ((topics.experiments, comparisons), (topics.preferences, preferences)):
            values = [each.model_dump_json(exclude_none=True).encode() for each in records]
            producer.send([ProducerRecord(str(topic), b"", value) for value in values])
    browser.open("namespace=store")
    browser.one("#to-experiments").click()
    browser.says("[data-experiment=new] h3", "new: won by b")
    browser.says("[data-experiment=new]", "queries compared: 300, 0 empty of a, 0 empty of b")
    browser.says("[data-experiment=new] tbody tr:nth-child(2)", "shop")
    browser.says("[data-experiment=new] tbody tr:last-child", "recipe y")
    bars = browser.all("[data-experiment=new] .lane")
    assert [each.size["width"] > 50 for each in bars] == [True] * 6
    inner = browser.run("return [...document.querySelectorAll('.lane i')].map((each) => each.getBoundingClientRect())")
    assert inner[0]["left"] > inner[1]["left"], "the interval is above .5"
    browser.says("[data-experiment=unasked]", "unasked: no query yet")


def manners(browser: Browser) -> None:
    """Read the keys, switch light and dark, and export the page without a script in it."""
    browser.open(DRILL)
    browser.press("?")
    browser.says("dialog[open]", "undo the last grade")
    browser.press(Keys.ESCAPE)
    browser.one("#theme").click()
    assert browser.run("return document.documentElement.dataset.theme") in {"light", "dark"}
    browser.check()
    browser.run(
        "const make = URL.createObjectURL; window.files = [];"
        "URL.createObjectURL = (file) => { window.files.push(file); return make(file); }"
    )
    browser.one("#export").click()
    browser.wait(lambda: browser.run("return window.files.length"))
    html = browser.chrome.execute_async_script("window.files[0].text().then(arguments[0])")
    assert "Makita" in html
    assert "default-src 'none'" in html
    assert "<script" not in html


def errors(browser: Browser) -> None:
    """Read what went wrong in words: a refused query, an empty answer."""
    browser.open(f"{DRILL}&a=nowhere")
    browser.says("#view", "not configured")
    browser.open("text=xyzzyplugh&namespace=nothing")
    browser.says("#view", "Nothing was found")
    browser.open("text=hose&namespace=nothing")
    browser.one(".empty .chip").click()
    browser.wait(lambda: browser.all(".card"))


TASKS: Final[list[Callable[[Browser], None]]] = [
    first_page,
    results,
    filters,
    explanation,
    missing_document,
    columns,
    configuration,
    parameters,
    time_of_query,
    judgements,
    query_set,
    rules,
    manners,
    errors,
    like,
    experiments,
]
WIDTHS: Final = (1280, 768, 360)
MATRIX: Final = [
    pytest.param(
        task,
        width,
        dark,
        id=f"{task.__name__}-{width}-{'dark' if dark else 'light'}",
        marks=[] if (at % 3, at % 2) == (place, dark) else [pytest.mark.nightly],
    )
    for at, task in enumerate(TASKS)
    for place, width in enumerate(WIDTHS)
    for dark in (False, True)
]


@pytest.mark.parametrize(("task", "width", "dark"), MATRIX)
def test_a_task_is_done(browser: Browser, task: Callable[[Browser], None], width: int, dark: bool) -> None:
    """Nothing is beyond the page's width or hard to read, axe finds nothing, and no error is in the log."""
    browser.size(width, dark=dark)
    task(browser)
    browser.check()


@pytest.mark.parametrize(
    "fragment", ["&panel=why&id=x", "&panel=lost", "&b=keyword", "&panel=parameters"][:: sized(2, nightly=1)]
)
def test_hostile_documents_run_nothing(browser: Browser, fragment: str) -> None:
    """Markup in title, text, id, field names and the query is text."""
    browser.size(1280)
    browser.open(f"text=harbor+%3Cscript%3Ewindow.hit%3D1%3C%2Fscript%3E&namespace=evil{fragment}")
    browser.says(".card h3", "<script>window.hit=1</script>")
    assert "<img src=x onerror=window.hit=1>" in browser.run("return document.getElementById('view').textContent")
    browser.press("j")
    browser.press("w")
    browser.says("#panel", "final")
    browser.check()
    assert not browser.all("main script, main img, aside img")


def test_a_link_of_another_site_waits_for_the_user(browser: Browser, served: Served) -> None:
    """The page that another site opens has its search filled in, and sends nothing until the user does."""

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """A page with a link to a search."""
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(f'<a href="http://127.0.0.1:{served.port}/#{DRILL}">look</a>'.encode())

        def log_message(self, *_: object) -> None:
            """Nothing."""

    browser.size(1280)
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as site:
        threading.Thread(target=site.serve_forever, args=(0.01,)).start()
        browser.chrome.get(f"http://localhost:{site.server_address[1]}/")
        browser.one("a").click()
        browser.says("#view", "A link was followed")
        site.shutdown()
    assert browser.one("#text").get_attribute("value") == "makita drill 18v"
    assert not browser.all(".card")
    browser.one("#form button").click()
    browser.wait(lambda: browser.all(".card"))


def test_a_thousand_results_stay_quick(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1,000 results with long texts only some are in the page, and a key moves without building any again."""

    def many(*given: Any) -> list[Any]:
        cards = to_cards(*given)
        return [{**cards[0], "id": f"d{n}", "rank": n + 1, "text": "word " * 120} for n in range(1000)]

    monkeypatch.setattr("flows.cli.console.workbench.to_cards", many)
    browser.size(1280)
    browser.open(DRILL)
    assert len(browser.all(".card")) <= 120
    assert browser.run("return document.querySelectorAll('*').length") < 6000
    browser.run(
        "window.changes = []; new MutationObserver((all) => window.changes.push(...all.map((each) => each.type)))"
        ".observe(document.querySelector('#view'), {attributes: true, childList: true, subtree: true})"
    )
    for _ in range(5):
        browser.press("j")
    assert browser.run("return document.querySelector('.card.current').dataset.id") == "d4"
    changes = browser.run("return window.changes")
    assert set(changes) == {"attributes"}
    assert len(changes) <= 4 * 5


def test_pictures_of_the_documentation(browser: Browser, tmp_path: Path) -> None:
    """Each part has a picture, which `python -m tests.flows.cli.pictures` writes into the documentation."""
    from tests.flows.cli.pictures import PICTURES, take

    taken = take(browser, tmp_path, PICTURES[:1])
    assert all(each.read_bytes().startswith(b"\x89PNG") for each in taken)
