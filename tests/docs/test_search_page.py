"""The page on search pages: its programs make pages of real results, from the queries that it shows."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from flows.cli.ingestion import index_once
from flows.cli.query import QueryClient
from flows.process.embedded import embedded_settings, start_with_settings
from tests.docs.pages import DOCS, blocks

Json = dict[str, Any]

pytestmark = pytest.mark.slow

BLOCKS = list(blocks(DOCS / "how-to" / "search-page.md"))
SHOP, HELP = (json.loads(block.text) for block in BLOCKS if block.info == "json query")
ARTICLES = [
    ("Headphones A", "Sony", 40.0, True),
    ("Headphones B", "Sony", 120.0, True),
    ("Headphones <C>", "Sony", 200.0, False),
    ("Headphones D", "Bose", 180.0, True),
    ("Turntable", "Sony", 300.0, True),
]
GUIDES = [
    ("Reset", "Router", "Hold the button & wait for ten seconds: that will reset the router."),
    ("Lights", "Router", "A red light: reset it."),
    ("Invoices", "Account", "Invoices are sent by post."),
]
DOCUMENTS: list[Json] = [
    *(
        {"id": f"a{number}", "namespace": "shop", "title": title, "brand": brand, "price": price, "in_stock": there}
        | {"text": f"{title}, by {brand}", "vector": [1.0, 0.0]}
        for number, (title, brand, price, there) in enumerate(ARTICLES)
    ),
    *(
        {
            "id": f"g{number}",
            "namespace": "help",
            "title": title,
            "section": section,
            "text": text,
            "vector": [1.0, 0.0],
        }
        for number, (title, section, text) in enumerate(GUIDES)
    ),
]
SECTIONS: Json = {"embedder": {"kind": "none"}, "rerank": {"kind": "none"}}
INDEXES = {"brand": "keyword", "in_stock": "bool", "price": "float", "section": "keyword"}


def program(name: str) -> dict[str, Any]:
    """The names that a program of the page defines, with the tutorial's `marked`."""
    [block] = [each for each in BLOCKS if each.info == f"python {name}"]
    assert len(block.text.splitlines()) <= 40
    [tutorial] = [each.text for each in blocks(DOCS / "tutorial.md") if each.info == "python"]
    [marked] = re.findall(r"^def marked.*?(?=^\S)", tutorial, re.MULTILINE | re.DOTALL)
    defined: dict[str, Any] = {}
    exec(block.text, defined)
    exec(marked, defined)
    return defined


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Json], Json]]:
    """Ask a query of the engine in the process."""
    directory: Path = tmp_path_factory.mktemp("pages")
    qdrant = {"dimension": 2, "indexes": INDEXES, "path": str(directory), "timeout": 20}
    with start_with_settings(embedded_settings(directory, {**SECTIONS, "qdrant": qdrant})) as embedded:
        index_once(embedded, "pages", lambda: enumerate(DOCUMENTS, 1), "1", directory, Console(quiet=True))
        with embedded.searching(), QueryClient.connect(embedded.kafka, embedded.settings.kafka.topics) as client:

            def one(event: Json) -> Json:
                [result] = client.ask([{**event, "recipe": "keyword"}], 60)
                return result

            yield one


def test_a_shops_page(ask: Callable[[Json], Json]) -> None:
    """Facets with the chosen value ticked and the others counted, both pages, and the reason if nothing is found."""
    shop = program("shop")["shop"]
    first = ask(SHOP)
    page = shop(first, {"brand": ["Sony"]})
    assert "<input type=checkbox checked> Sony (3)" in page
    assert "<input type=checkbox> Bose (1)" in page
    for line in ("> True (2)", "> False (1)", "> 0 to 50 (1)", "> 50 to 150 (1)", "> 150 and more (1)", "3 articles"):
        assert line in page
    assert (page.count("<article>"), "next page" in page) == (2, True)
    rest = {name: value for name, value in SHOP.items() if name != "facets"}
    second = shop(ask({**rest, "query_id": "47", "cursor": first["next_cursor"]}), {})
    assert (second.count("<article>"), "next page" in second) == (1, False)
    assert "<h2>Headphones &lt;C&gt;</h2>" in page + second
    wrong = {"field": "brnd", "op": "eq", "value": "Sony"}
    nothing = shop(ask({**SHOP, "query_id": "48", "filters": [wrong]}), {})
    assert "no document has the field `brnd` of filters.0; did you mean `brand`?" in nothing


def test_a_help_centres_page(ask: Callable[[Json], Json]) -> None:
    """Passages with the query's words marked, sections with counts, and a way on if nothing is found."""
    help_centre = program("help")["help_centre"]
    page = help_centre(ask(HELP))
    assert "<nav>Router (2)</nav>" in page
    assert "Hold the button &amp; wait for ten seconds: that will <b>reset</b> the <b>router</b>." in page
    assert "more articles" not in page
    assert "Write to us" in help_centre(ask({**HELP, "query_id": "49", "text": "zanzibar"}))
