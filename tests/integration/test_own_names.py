"""The export of a CMS with names of its own, through both flows in the process: whoever knows those names alone can
index, filter, group, order and change the documents, and reads them in results, wishes and errors.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from rich.console import Console

from flows.cli.ingestion import Ingested, index_once
from flows.cli.output import answer_table
from flows.cli.query import QueryClient
from flows.process.embedded import embedded_settings, start_with_settings
from schemas.result import ResultEvent
from tests.flows.cli.terminal import printed

Json = dict[str, Any]
Ask = Callable[..., Json]


def page(nid: int, headline: str, body: str, **more: Any) -> Json:
    """A page as the CMS exports it."""
    meta = {"published": f"2026-01-0{nid - 39}T10:00:00Z", "author": "ada"}
    own = {"nid": nid, "headline": headline, "content": {"body": body, "format": "plain"}, "meta": meta}
    return {**own, "tenant": 7, "title": "Help centre", **more}


PAGES: Final = [
    page(40, "Reset the router", "Hold the button for ten seconds.", section="setup", priority=3, **{"Miete (€)": 25}),
    page(
        41,
        "Router lamps",
        "A red lamp of the router says that the line is down.",
        section="setup",
        priority=1,
        **{"Miete (€)": 15},
    ),
    page(42, "Paper jam", "Open the rear door of the printer.", section="care", priority=2),
]
COLUMNS: Final = {
    "id": "nid",
    "title": "headline",
    "text": "content.body",
    "created_at": "meta.published",
    "namespace": "tenant",
    "own_priority": "priority",
    "site": "title",
    "monthly": "Miete (€)",
}
SECTIONS: Final = {
    "documents": {"columns": COLUMNS, "ids": "integer"},
    "embedder": {"kind": "none"},
    "rerank": {"kind": "none"},
    "defaults": {"namespace": "7"},
}
QDRANT: Final = {"indexes": {"section": "keyword", "own_priority": "integer"}}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ask, Callable[..., Ingested]]]:
    """Ask a query; and send documents, of which some are refused."""
    directory, quiet = tmp_path_factory.mktemp("own-names"), Console(quiet=True)
    qdrant = {"path": str(directory / "index"), "timeout": 20, **QDRANT}
    with start_with_settings(embedded_settings(directory / "index", {**SECTIONS, "qdrant": qdrant})) as running:

        def send(*documents: Json) -> Ingested:
            number = str(hash(str(documents)))
            found = index_once(
                running, "pages", lambda: enumerate(documents, 1), number, directory, quiet, complete=False
            )
            assert found is not None
            return found

        assert send(*PAGES).applied == len(PAGES)
        with running.searching(), QueryClient.connect(running.kafka, running.settings.kafka.topics) as client:

            def ask(**event: Any) -> Json:
                [result] = client.ask([{"query_id": "q", **event}], 30)
                ResultEvent.model_validate(result)
                return result

            yield ask, send


def test_a_page_returns_as_it_was_exported(asked: tuple[Ask, Callable[..., Ingested]]) -> None:
    """Its fields where they were; only id and text are parts of the result, and the namespace is a text."""
    ask, _ = asked
    [hit] = ask(text="printer")["results"]
    assert (hit["id"], hit["text"]) == (42, "Open the rear door of the printer.")
    assert hit["payload"] == {
        "headline": "Paper jam",
        "content": {"format": "plain"},
        "meta": {"published": "2026-01-03T10:00:00.000Z", "author": "ada"},
        "tenant": "7",
        "title": "Help centre",
        "section": "care",
        "priority": 2,
        "destination": "default",
    }
    assert "Paper jam: Open the rear door" in printed([answer_table(ask(text="printer"), "printer", "headline")])


def test_queries_take_the_names_of_the_export(asked: tuple[Ask, Callable[..., Ingested]]) -> None:
    """In filters, orders, groups, chosen fields and keyword expressions; those of the index, too, if they are free."""
    ask, _ = asked

    def ids(**event: Any) -> list[int]:
        return [hit["id"] for hit in ask(**event)["results"]]

    def where(field: str, value: Any) -> Json:
        return {"filters": [{"field": field, "op": "eq", "value": value}]}

    assert ids(**where("headline", "Paper jam")) == [42]
    assert ids(**where("nid", 41)) == ids(**where("priority", 1)) == ids(**where("own_priority", 1)) == [41]
    assert ids(**where("title", "Paper jam")) == []
    assert len(ids(**where("title", "Help centre"))) == 3
    group = [{"any_of": [{"field": "meta.published", "op": "date_range", "value": {"lte": "2026-01-01T12:00:00Z"}}]}]
    assert ids(filters=group) == [40]
    everything = {"filters": [{"field": "meta.author", "op": "eq", "value": "ada"}]}
    assert ids(**everything, order_by={"field": "priority"}) == [41, 42, 40]
    assert ids(**everything, order_by={"field": "meta.published", "direction": "asc"}) == [40, 41, 42]
    assert set(ids(text="headline:router")) == {40, 41}
    chosen = ask(text="printer", **{"return": {"fields": ["headline", "priority", "meta"]}})["results"][0]["payload"]
    assert chosen == {
        "headline": "Paper jam",
        "priority": 2,
        "meta": {"published": "2026-01-03T10:00:00.000Z", "author": "ada"},
    }
    grouped = ask(text="router printer", group_by="section", group_size=2)["results"]
    assert {hit["group"]["key"]: len(hit["group"]["results"]) for hit in grouped} == {"setup": 1, "care": 0}
    assert all("headline" in each["payload"] for hit in grouped for each in hit["group"]["results"])


def test_wishes_name_the_field_of_the_export(asked: tuple[Ask, Callable[..., Ingested]]) -> None:
    """As they are understood, and as they come back with a query."""
    ask, _ = asked
    wish = {"kind": "order", "words": "", "about": ["priority"], "direction": "asc", "field": "priority"}
    result = ask(text="router", understood=[wish])
    assert [each["field"] for each in result["understood"]] == ["priority"]
    assert ask(text="router", understood=result["understood"])["understood"] == result["understood"]


def test_a_limit_in_words_is_about_the_fields_of_the_export(asked: tuple[Ask, Callable[..., Ingested]]) -> None:
    """The unit is in the name of the export alone."""
    result = asked[0](text="router under 20 euro")
    assert [each["field"] for each in result["understood"]] == ['"Miete (€)"']
    assert [hit["id"] for hit in result["results"]][:2] == [41, 40]


def test_errors_name_the_field_of_the_export(asked: tuple[Ask, Callable[..., Ingested]]) -> None:
    """Of a query the field that cannot be used, and those that can; of a document the wrong or missing one."""
    ask, send = asked
    refused = ask(text="router", order_by={"field": "headline"})["error"]
    assert refused["field"] == "order_by.field"
    assert refused["reason"] == (
        "order_by.field: nothing to order by; there are meta.published, priority, updated_at ('headline')"
    )
    assert ask(text="router", group_by="meta.author")["error"]["reason"].endswith("type ('meta.author')")
    assert ask(group_by="headline", filters=[{"field": "nid", "op": "eq", "value": 40}])["error"]["reason"] == (
        "group_by: only a search has groups, by text, vector or reflections ('headline')"
    )
    wrong = [{"nid": 50}, {"headline": "No number"}, {"nid": 51, "headline": 5}, page(40, "x", "y", op="patch")]
    reasons = [each.reason for each in send(*wrong).rejected]
    assert reasons[0] == "an upsert needs `content.body`, `headline`, or its embedding as `vector`"
    assert reasons[1] == "nid: missing"
    assert reasons[2] == "headline: Input should be a valid string (5)"
    assert reasons[3].startswith("content.body: a patch changes no field that is embedded or searched")
    where = {"op": "delete_where", "tenant": 7, "filters": [{"field": "tenant", "op": "eq", "value": 7}]}
    [refused] = send(where).rejected
    cure = "filters.0.field: the event's own `tenant` says this; leave the filter out ('tenant')"
    assert refused.reason == cure


def test_a_patch_and_a_deletion_have_the_names_of_the_export(asked: tuple[Ask, Callable[..., Ingested]]) -> None:
    """They change and remove what these say."""
    ask, send = asked
    there = {"filters": [{"field": "section", "op": "exists", "value": True}]}
    assert send({"nid": 42, "op": "patch", "tenant": 7, "priority": 9}).rejected == []
    assert {hit["id"]: hit["payload"]["priority"] for hit in ask(**there)["results"]} == {40: 3, 41: 1, 42: 9}
    gone = {"op": "delete_where", "tenant": 7, "filters": [{"field": "headline", "op": "eq", "value": "Paper jam"}]}
    assert send(gone).rejected == []
    assert {hit["id"] for hit in ask(**there)["results"]} == {40, 41}
