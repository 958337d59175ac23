"""Wishes in words through the running flows, with Qdrant's engine: read, judged, and sent back changed."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from rich.console import Console

from flows.cli.ingestion import index_once
from flows.cli.query import QueryClient
from flows.process.embedded import embedded_settings, start_with_settings

DOCUMENTS: Final[list[dict[str, Any]]] = [
    {"id": "pico", "title": "Headphones Pico", "text": "With a cable.", "price": 35.0, "currency": "EUR"},
    {"id": "vento", "title": "Headphones Vento", "text": "Without a cable, light.", "price": 79.0, "currency": "EUR"},
    {"id": "studio", "title": "Headphones Studio", "text": "For recording.", "price": 149.0, "currency": "EUR"},
    {"id": "gift", "title": "Headphones, a gift", "text": "Nobody knows the price."},
    {"id": "lamp", "title": "Lamp", "text": "An arm that folds.", "price": 12.0, "currency": "EUR"},
]
SETTINGS: Final = {
    "embedder": {"kind": "none"},
    "rerank": {"kind": "none"},
    "policies": {"sources": {"*": {}, "shop": {"hidden_fields": ["price"]}}},
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryClient]:
    """A client of the search flow, with the documents indexed."""
    directory = tmp_path_factory.mktemp("wishes")
    with start_with_settings(embedded_settings(directory, SETTINGS)) as running:
        index_once(running, "documents", lambda: enumerate(DOCUMENTS, 1), "1", directory, Console(quiet=True))
        with running.searching(), QueryClient.connect(running.kafka, running.settings.kafka.topics) as client:
            yield client


def ask(client: QueryClient, text: str, **event: Any) -> dict[str, Any]:
    """The result of one query."""
    [result] = client.ask([{"query_id": text, "text": text, "profile": "exhaustive", **event}], 30)
    return result


def found(result: dict[str, Any]) -> list[str]:
    """The documents, best first."""
    return [hit["id"] for hit in result["results"]]


def test_a_limit_is_understood(client: QueryClient) -> None:
    """Dearer ones go behind, nothing goes away, and the result says what was read, and by which field."""
    result = ask(client, "headphones under 100 euro")
    assert set(found(result)[:2]) == {"pico", "vento"}
    assert set(found(result)[2:]) == {"gift", "studio"}
    [wish] = result["understood"]
    assert (wish["words"], wish["lt"], wish["unit"], wish["field"]) == ("under 100 euro", 100.0, "EUR", "price")


def test_what_was_understood_may_be_sent_back(client: QueryClient) -> None:
    """As it is it gives the same answer; changed, another; an empty list has the words searched as words."""
    first = ask(client, "headphones under 100 euro")
    again = ask(client, "headphones under 100 euro", understood=first["understood"])
    assert (found(again), again["understood"]) == (found(first), first["understood"])
    [wish] = first["understood"]
    changed = ask(client, "headphones under 100 euro", understood=[{**wish, "lt": None, "gt": 100.0}])
    assert found(changed)[0] == "studio"
    without = ask(client, "headphones under 100 euro", understood=[])
    assert "understood" not in without
    assert found(without) == found(ask(client, "headphones under 100 euro", overrides=OFF))


OFF: Final = {"wishes": {"limits": False, "exclusions": False, "order": False}}


def test_strict_leaves_out_what_fails(client: QueryClient) -> None:
    """And keeps what says nothing."""
    result = ask(client, "headphones under 100 euro", overrides={"wishes": {"strict": True}})
    assert sorted(found(result)) == ["gift", "pico", "vento"]


def test_an_exclusion_is_understood(client: QueryClient) -> None:
    """One that has it goes behind those that are without it, or don't name it."""
    result = ask(client, "headphones without cable")
    assert found(result)[-1] == "pico"
    assert [(wish["kind"], wish["without"]) for wish in result["understood"]] == [("exclusion", "cable")]


def test_an_order_is_understood(client: QueryClient) -> None:
    """The cheapest of those that are searched for; an order of the query's own goes before it."""
    assert found(ask(client, "cheapest headphones"))[:3] == ["pico", "vento", "studio"]
    assert found(ask(client, "most expensive headphones"))[:3] == ["studio", "vento", "pico"]


def test_a_hidden_field_is_not_read(client: QueryClient) -> None:
    """The order of its values would tell them: for a source that may not see the prices there are none."""
    hidden = ask(client, "headphones under 100 euro", source="shop")
    [wish] = hidden["understood"]
    assert wish["field"] is None
    assert found(hidden) == found(ask(client, "headphones", source="shop"))
    assert found(ask(client, "cheapest headphones", source="shop")) == found(hidden)


def test_pages_go_on(client: QueryClient) -> None:
    """The cursor is of the query with its wishes."""
    whole = found(ask(client, "headphones under 100 euro"))
    first = ask(client, "headphones under 100 euro", limit=2)
    second = ask(client, "headphones under 100 euro", limit=2, cursor=first["next_cursor"])
    assert found(first) + found(second) == whole
    other = ask(client, "headphones under 50 euro", limit=2, cursor=first["next_cursor"])
    assert other["status"] == "invalid"


@pytest.mark.parametrize(
    ("understood", "field"),
    [
        ([{"kind": "limit"}], "understood"),
        ([{"kind": "limit", "gt": 5, "lt": 2}], "understood"),
        ([{"kind": "wish"}], "understood"),
        ([{"kind": "exclusion", "without": ""}], "understood"),
        ([{"kind": "order", "about": ["price"], "direction": "up"}], "understood"),
    ],
)
def test_wishes_that_are_wrong_are_refused(client: QueryClient, understood: Any, field: str) -> None:
    """The error names the field."""
    result = ask(client, "headphones", understood=understood)
    assert result["status"] == "invalid"
    assert result["error"]["field"].startswith(field)
