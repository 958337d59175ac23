"""More like this through the running flows, with Qdrant's engine and MiniLM."""

import itertools
import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
from rich.console import Console

from flows.cli.ingestion import index_once
from flows.cli.query import QueryClient
from flows.process.embedded import embedded_settings, start_with_settings
from tests.docs.pages import DOCS, blocks
from tests.integration.deployment import wait_until
from tests.integration.searching import CACHE

DOCUMENTS: Final[list[dict[str, Any]]] = [
    {"id": id_, "title": title, "text": text, "in_stock": in_stock, "maker": maker, "namespace": "shop"}
    for id_, title, text, in_stock, maker in (
        ("sku-1207", "Brass storm lantern", "A lantern for paraffin, with a wick and a glass chimney.", False, "oslo"),
        ("sku-1208", "Camping lantern", "A lantern for tents, with a battery.", True, "oslo"),
        ("sku-1209", "Paraffin lamp", "A lamp with a wick, a glass chimney and a brass foot.", True, "turin"),
        ("sku-1210", "Ship lantern", "A lantern of brass for boats, paraffin or candle.", False, "turin"),
        ("sku-1211", "Desk lamp", "A lamp for desks with an arm that folds.", True, "turin"),
        ("sku-1212", "Garden chair", "A chair of teak for gardens.", True, "oslo"),
        ("sku-1213", "Office chair", "A chair that turns, with five wheels.", True, "turin"),
        ("sku-1214", "Folding table", "A table for balconies.", True, "oslo"),
    )
]
FOREIGN: Final = {"id": "sku-9", "title": "Lantern", "text": "A lantern of somebody else.", "namespace": "other"}
SETTINGS: Final = {
    "cache_dir": str(CACHE),
    "qdrant": {"indexes": {"in_stock": "bool", "maker": "keyword"}},
    "policies": {"sources": {"*": {}, "press": {"hidden_fields": ["title"]}}},
}
NUMBERS: Final = itertools.count()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryClient]:
    """A client of the search flow, with the documents indexed."""
    directory = tmp_path_factory.mktemp("like")
    with start_with_settings(embedded_settings(directory, SETTINGS)) as running:
        documents = [*DOCUMENTS, FOREIGN]
        index_once(running, "documents", lambda: enumerate(documents, 1), "1", directory, Console(quiet=True))
        with running.searching(), QueryClient.connect(running.kafka, running.settings.kafka.topics) as client:
            yield client


def ask(client: QueryClient, **event: Any) -> dict[str, Any]:
    """The result of one query."""
    [result] = client.ask([{"namespace": "shop", **event, "query_id": f"q{next(NUMBERS)}"}], 30)
    return result


def ids(result: dict[str, Any]) -> list[str]:
    """The results, which are all that was asked for."""
    assert (result["status"], result["degraded"]) == ("ok", []), result
    return [hit["id"] for hit in result["results"]]


def legs(result: dict[str, Any]) -> dict[str, str]:
    """The outcomes of the two legs that search by examples."""
    return {leg["name"]: leg["reason"] or leg["status"] for leg in result["legs"] if leg["name"] != "fuzzy"}


def test_the_pages_example_finds_what_is_like_a_document(client: QueryClient) -> None:
    """By both legs, within the filter, which the document itself need not pass; asked again, from the exact cache."""
    examples = [json.loads(block.text) for block in blocks(DOCS / "how-to" / "asking.md") if block.info == "json query"]
    [example] = [each for each in examples if "like" in each]
    result = ask(client, **example)
    assert ids(result)[:2] == ["sku-1209", "sku-1208"]
    assert legs(result) == {"vector": "ok", "keyword": "ok"}
    assert result["warnings"] == []
    assert "reranked" not in result
    # The first answers may be computed before the index's watermark is known.
    wait_until(lambda: ask(client, **example)["retrieval_stage"] == "exact_cache")
    assert ask(client, **example)["results"] == result["results"]


def test_pages_groups_and_explanations_are_those_of_a_search(client: QueryClient) -> None:
    """Two pages are one list; a group has one result; scores are explained."""
    like: Any = {"ids": ["sku-1207"], "unlike": ["sku-1212"]}
    every = ask(client, like=like, limit=6)
    whole = ids(every)
    # No word was asked for that documents could have.
    assert every["total_relation"] == "nearest"
    assert {*whole}.isdisjoint({"sku-1207", "sku-1212"})
    first = ask(client, like=like, limit=3)
    second = ask(client, like=like, limit=3, cursor=first["next_cursor"])
    assert ids(first) + ids(second) == whole
    grouped = ask(client, like=like, group_by="maker", group_size=1)
    assert {hit["group"]["key"] for hit in grouped["results"]} == {"oslo", "turin"}
    explained = ask(client, like={"ids": ["sku-1207"]}, explain=True)
    assert all({*hit["legs"]} <= {"vector", "keyword"} for hit in explained["results"])
    assert all(hit["explanation"] for hit in explained["results"])


def test_a_text_stands_for_a_document(client: QueryClient) -> None:
    """It is searched as the document with these words is, and nothing in it is syntax."""
    text = "NOT a lantern for paraffin* with a wick"
    result = ask(client, like={"text": text}, limit=3)
    assert legs(result) == {"vector": "ok", "keyword": "ok"}
    assert {"sku-1207", "sku-1209"} < {*ids(result)}
    beside = ask(client, text="chair", like={"ids": ["sku-1207"]}, limit=8, rerank=False)
    assert {"sku-1212", "sku-1209"} < {*ids(beside)}


def test_only_what_may_be_seen_is_an_example(client: QueryClient) -> None:
    """Documents of others and those that do not exist are one thing; without an example there is no result."""
    results = [ask(client, like={"ids": [id_]}) for id_ in ("sku-9", "nowhere")]
    assert [ids(each) for each in results] == [[], []]
    told = [
        [said.replace(id_, "?") for said in each["warnings"]]
        for id_, each in zip(("sku-9", "nowhere"), results, strict=True)
    ]
    assert told[0] == told[1]
    assert any("'?'" in said for said in told[0])
    press = ask(client, like={"ids": ["sku-1207"]}, source="press")
    assert legs(press) == {"vector": "ok", "keyword": "no_terms"}


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"like": {}}, "ids, unlike or text must be given"),
        ({"like": {"unlike": ["a"]}}, "what is wanted must be given"),
        ({"like": {"text": "a"}, "text": "b"}, "at most one"),
        ({"like": {"ids": ["a"]}, "reflections_only": True}, "reflections are ranked"),
        ({"like": {"ids": ["a"] * 33}}, "32"),
        ({"like": {"text": "word " * 2000}}, "like.text: 10000 characters"),
    ],
)
def test_what_cannot_be_asked_is_refused(client: QueryClient, event: dict[str, Any], reason: str) -> None:
    """By one line that says why."""
    result = ask(client, **event)
    assert result["status"] == "invalid"
    assert reason in result["error"]["reason"]
