"""Collections as LangChain, LlamaIndex and plain qdrant-client make them, with the configurations of the page."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import qdrant_edge
import yaml

from bench.kafka.broker import Broker
from tests import qdrant_server
from tests.integration.deployment import Deployment
from tests.integration.searching import asking

ROOT: Final = Path(__file__).parents[2]
MADE: Final = json.loads((ROOT / "tests/data/other_tools.json").read_text())["collections"]
PAGE: Final = (ROOT / "docs/how-to/other-collections.md").read_text()
SETTINGS: Final = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
TOOLS: Final = {section["qdrant"]["destinations"]["default"]: section for section in SETTINGS}

TEXTS: Final = [
    "the ferry leaves the harbor at noon",
    "a lantern burns in the keeper's window",
    "the garden sleeps in winter",
]
NAMESPACES: Final = {"plain": ("articles", 3), "langchain": ("acme", 2), "llamaindex": ("acme", 2)}


def text_of(tool: str, point: Mapping[str, Any]) -> str:
    """The text of a point, from the tool's own field."""
    payload = point["payload"]
    text: str = {
        "plain": lambda: payload["body"],
        "langchain": lambda: payload["page_content"],
        "llamaindex": lambda: json.loads(payload["_node_content"])["text"],
    }[tool]()
    return text


def fill(
    url: str, tool: str, indexes: Mapping[str, Any] | None = None, sparse: Mapping[str, Any] | None = None
) -> None:
    """Create the collection as the tool did, with its points; with BM25 terms if `sparse` says of what vector."""
    place, made = f"{url}/collections/{tool}", MADE[tool]
    config, points = {"vectors": made["config"]["vectors"]}, made["points"]
    if sparse is not None:
        config["sparse_vectors"] = {"terms": sparse}
        points = [{**point, "vector": {"": point["vector"], "terms": terms(text_of(tool, point))}} for point in points]
    httpx.put(place, json=config).raise_for_status()
    httpx.put(f"{place}/points?wait=true", json={"points": points}).raise_for_status()
    for field, schema in (indexes or {}).items():
        body = {"field_name": field, "field_schema": schema}
        httpx.put(f"{place}/index?wait=true", json=body).raise_for_status()


def terms(text: str) -> dict[str, Any]:
    """The BM25 terms of a text as `Qdrant/bm25` makes them."""
    vector = qdrant_edge.Bm25(qdrant_edge.Bm25Config()).embed_document(text)
    return {"indices": vector.indices, "values": vector.values}


Over = Callable[..., Any]


@contextmanager
def over_tool(
    broker: Broker,
    directory: Path,
    name: Callable[[str], str],
    tool: str,
    indexes: Mapping[str, Any] | None = None,
    server: Callable[[Path], AbstractContextManager[str]] = qdrant_server.running,
    sparse: Mapping[str, Any] | None = None,
) -> Iterator[Any]:
    """The search flow over a tool's collection, configured as on the page, but for the embedder."""
    with server(directory / "engine") as url:
        fill(url, tool, indexes, sparse)
        page = TOOLS[tool]
        own = {**page["qdrant"], "url": url, "dimension": 4, "timeout": 20}
        if sparse is not None:
            own["vectors"] = {**own["vectors"], "sparse": "terms"}
        sections = {**page, "qdrant": own, "embedder": {"kind": "none"}, "limits": {"timeout": 60}}
        with Deployment.on(broker, directory, name, sections) as system:
            system.start()
            yield asking(system, NAMESPACES[tool][0])


@pytest.fixture
def over(broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]) -> Over:
    """The search flow over a tool's collection with such indexes."""
    return lambda tool, indexes=None: over_tool(broker, tmp_path, topic_names, tool, indexes)


@pytest.fixture(scope="module", params=list(MADE))
def tool(request: pytest.FixtureRequest) -> str:
    """One of the tools."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def ask(tool: str, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The search flow over the collection of one tool."""
    directory = tmp_path_factory.mktemp(tool)
    with over_tool(broker, directory, lambda word: f"{word}-{directory.name}", tool) as asked:
        yield asked


def test_the_nearest_document_is_found_with_its_fields(tool: str, ask: Any) -> None:
    """By vector, in its namespace alone, with text, id and namespace where rankstream has them."""
    namespace, size = NAMESPACES[tool]
    points = sorted(MADE[tool]["points"], key=lambda point: TEXTS.index(text_of(tool, point)))
    for point in points[:size]:
        text = text_of(tool, point)
        found = ask({"text": text, "vector": point["vector"], "recipe": "hybrid"})
        assert (found["status"], found["degraded"]) == ("ok", [])
        legs = {leg["name"]: (leg["status"], leg.get("reason")) for leg in found["legs"]}
        assert legs["keyword"] == ("skipped", "no_sparse_vector")
        assert len(found["results"]) == size
        first = found["results"][0]
        assert (first["id"], first["text"]) == (str(point["id"]), text)
        assert first["payload"]["namespace"] == namespace
    assert not ask({"vector": points[0]["vector"], "namespace": "nobody"})["results"]


@pytest.mark.parametrize("recipe", ["hybrid", "vector", "keyword", "composite", "rrf", "signals", "decay", "distance"])
def test_every_recipe_answers(tool: str, ask: Any, recipe: str) -> None:
    """No part of an answer is lost; keywords alone find nothing, and the answer says why."""
    found = ask({"text": "harbor", "vector": MADE[tool]["points"][0]["vector"], "recipe": recipe})
    assert (found["status"], found["degraded"]) == ("ok", [])
    assert any(said.startswith("no_sparse_vector: ") for said in found["warnings"])
    assert bool(found["results"]) == (recipe != "keyword")


def test_what_is_like_a_document_is_found_by_its_id(tool: str, ask: Any) -> None:
    """All others of its namespace, the nearest first; a document of another namespace is none."""
    size = NAMESPACES[tool][1]
    points = sorted(MADE[tool]["points"], key=lambda point: TEXTS.index(text_of(tool, point)))
    found = ask({"like": {"ids": [str(points[0]["id"])]}, "recipe": "hybrid"})
    assert (found["status"], found["degraded"], found["warnings"]) == ("ok", [], [])
    assert {hit["id"] for hit in found["results"]} == {str(each["id"]) for each in points[1:size]}
    nothing = ask({"like": {"ids": [str(points[0]["id"])]}, "namespace": "nobody"})
    assert nothing["results"] == []
    assert any(said.startswith("like: ") for said in nothing["warnings"])


def test_filters_have_our_names(over: Over) -> None:
    """Of a nested path, of a time in another form, of an id, of a field that isn't mapped."""
    points = MADE["langchain"]["points"]
    ids = {text_of("langchain", point): str(point["id"]) for point in points}

    def eq(field: str, value: object) -> dict[str, Any]:
        return {"field": field, "op": "eq", "value": value}

    with over("langchain", {"metadata.created": "datetime"}) as ask:

        def asked(*filters: dict[str, Any]) -> set[str]:
            found = ask({"filters": list(filters), "vector": points[0]["vector"], "recipe": "vector"})
            assert found["status"] == "ok"
            return {hit["id"] for hit in found["results"]}

        assert asked(eq("text", TEXTS[0])) == {ids[TEXTS[0]]}
        assert asked(eq("id", ids[TEXTS[1]])) == {ids[TEXTS[1]]}
        assert asked({"field": "id", "op": "none_of", "value": [ids[TEXTS[1]]]}) == {ids[TEXTS[0]]}
        assert asked(eq("id", "nothing")) == asked(eq("id", 5)) == set()
        after = {"field": "created_at", "op": "date_range", "value": {"gte": "2024-01-02T00:00:00Z"}}
        assert asked(after) == {ids[TEXTS[1]]}
        assert asked(eq("metadata.source", "tweet")) == {ids[TEXTS[0]], ids[TEXTS[1]]}


def test_filters_on_what_no_payload_has(over: Over) -> None:
    """Ids of points that are numbers, and the one namespace, are filtered as any other string."""
    with over("plain") as ask:

        def found(field: str, op: str, value: object) -> set[str]:
            answer = ask({"filters": [{"field": field, "op": op, "value": value}], "limit": 10})
            return {hit["id"] for hit in answer["results"]}

        everything = {str(point["id"]) for point in MADE["plain"]["points"]}
        one = min(everything)
        assert found("id", "any_of", [one, "nothing"]) == {one}
        assert found("id", "none_of", [one]) == everything - {one}
        # An id that is a whole number is found by the number, too.
        assert found("id", "eq", int(one)) == {one}
        assert found("id", "range", {"gte": 0}) == set()
        assert found("namespace", "any_of", ["articles", "other"]) == found("namespace", "exists", True) == everything
        assert found("namespace", "none_of", ["articles"]) == found("namespace", "eq", 1) == set()


def test_without_an_index_records_come_by_their_ids(over: Over) -> None:
    """Page after page."""
    with over("plain") as ask:
        first = ask({"limit": 2, "filters": [{"field": "city", "op": "exists", "value": True}]})
        assert [hit["id"] for hit in first["results"]] == ["1", "2"]
        again = {
            "limit": 2,
            "filters": [{"field": "city", "op": "exists", "value": True}],
            "cursor": first["next_cursor"],
        }
        assert [hit["id"] for hit in ask(again)["results"]] == ["3"]


def test_an_index_gives_an_order(over: Over) -> None:
    """By our name of the field, page after page, and the newest first where nothing else is said."""
    with over("plain", {"date": "integer"}) as ask:
        there = [{"field": "city", "op": "exists", "value": True}]
        newest = ask({"limit": 2, "filters": there})
        assert [hit["id"] for hit in newest["results"]] == ["3", "2"]
        assert newest["results"][0]["payload"]["created_at"] == "2023-11-16T22:13:20.000Z"
        rest = ask({"limit": 2, "filters": there, "cursor": newest["next_cursor"]})
        assert [hit["id"] for hit in rest["results"]] == ["1"]
        oldest = ask({"filters": there, "order_by": {"field": "created_at", "direction": "asc"}})
        assert [hit["id"] for hit in oldest["results"]] == ["1", "2", "3"]


def test_a_text_index_that_ranks_is_searched_by_keywords(
    broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]
) -> None:
    """The keyword leg needs no sparse vector if the server can score text."""
    # Qdrant's engine has it since 0.9, its server since 1.20.
    index = {"page_content": {"type": "text", "scoring": {"type": "bm25"}}}
    serve = qdrant_server.serve
    with over_tool(broker, tmp_path, topic_names, "langchain", index, serve) as ask:
        found = ask({"text": "lantern", "recipe": "keyword"})
        assert (found["status"], found["degraded"], found["warnings"]) == ("ok", [], [])
        assert [hit["text"] for hit in found["results"]] == [TEXTS[1]]
        assert found["results"][0]["legs"]["keyword"]["score"] > 0


@pytest.mark.parametrize("sparse", [{}, {"modifier": "none"}, {"modifier": "idf"}])
def test_terms_are_found_with_and_without_idf(
    sparse: dict[str, Any], broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]
) -> None:
    """As the tools make the vector unless they are told of the modifier, and as they should."""
    with over_tool(broker, tmp_path, topic_names, "langchain", sparse=sparse) as ask:
        found = ask({"text": "the lantern", "recipe": "keyword"})
        assert (found["status"], found["degraded"]) == ("ok", [])
        assert [hit["text"] for hit in found["results"]] == [TEXTS[1]]
