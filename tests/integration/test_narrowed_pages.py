"""Groups of filters, orders of relevant results, and pages after a write, in running flows with both caches on.

Once with a Qdrant server, and once with the engine in the process.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pytest
from rich.console import Console

from flows.cli.ingestion import ingest_with_bar
from flows.cli.query import QueryClient
from flows.process.embedded import embedded_settings, start_with_settings
from tests.integration.cascade import Json, System, ids
from tests.integration.deployment import wait_until
from tests.integration.searching import CACHE

pytest_plugins = ["tests.integration.cascade_running"]
pytestmark = pytest.mark.slow

NAMESPACE: Final = "shop"
QUERY: Final[Json] = {"namespace": NAMESPACE, "text": "harbor lantern", "recipe": "vector", "limit": 200}


def _lantern(number: int) -> Json:
    item: Json = {
        "id": f"lantern{number}",
        "namespace": NAMESPACE,
        "text": f"A harbor lantern of the kind {number}.",
        "subject": "lanterns",
        "colour": ("red", "blue", "green")[number % 3],
        "metadata": {"page no.": number % 4},
        "variants": [{"code": "a", "stock": number % 5}, {"code": "b", "stock": number % 2}],
        "created_at": 1_700_000_000 + number,
    }
    if number % 4:
        item["size"] = number % 7
    return item


LANTERNS: Final = {item["id"]: item for item in map(_lantern, range(40))}


@dataclass(frozen=True)
class Shop:
    """Running flows: `ask` gives a query's result, the refusal's too; `write` indexes documents."""

    ask: Callable[[Json], Json]
    write: Callable[[Sequence[Json]], None]

    def pages(self, event: Json) -> list[Json]:
        """Every page of a query."""
        found = [self.ask(event)]
        while (cursor := found[-1]["next_cursor"]) is not None:
            found.append(self.ask({**event, "cursor": cursor}))
        return found


@pytest.fixture(scope="module", params=["server", "engine in the process"])
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """The lanterns, indexed."""
    if request.param == "server":
        system: System = request.getfixturevalue("kitchen")

        def result(event: Json) -> Json:
            [ended] = system.together([event])
            return ended.value if ended.kind == "result" else {"status": "invalid", "error": {"class": ended.kind}}

        system.write([*LANTERNS.values()])
        yield Shop(result, system.write)
        return
    directory = tmp_path_factory.mktemp("shop")
    settings: Json = {
        "qdrant": {"path": str(directory), "timeout": 20, "indexes": {"size": "integer"}},
        "embedder": {"kind": "minilm", "timeout": 20},
        "rerank": {"kind": "late_interaction", "timeout": 20},
        "cache": {"watermark_timeout": 10.0},
        "cache_dir": str(CACHE),
    }
    asked = iter(range(10_000))
    with start_with_settings(embedded_settings(directory, settings)) as running:

        def write(documents: Sequence[Json]) -> None:
            numbered, silent = enumerate(documents, 1), Console(quiet=True)
            ingest_with_bar(running.settings.kafka.indexing, "shop", numbered, len(documents), silent, 60)

        with (
            running.indexing(),
            running.searching(),
            QueryClient.connect(running.kafka, running.settings.kafka.topics) as client,
        ):

            def ask(event: Json) -> Json:
                [answer] = client.ask([{"query_id": f"q{next(asked)}", **event}], 60)
                return answer

            write([*LANTERNS.values()])
            # Nobody waits for the first watermark of all: until it was read, answers are computed each time.
            wait_until(lambda: ask({**QUERY, "limit": 1})["provenance"]["index_watermark"] is not None)
            yield Shop(ask, write)


RED: Final[Json] = {"field": "colour", "op": "eq", "value": "red"}
FIRST: Final[Json] = {"field": 'metadata."page no."', "op": "eq", "value": 1}
STOCKED: Final[list[Json]] = [
    {"field": "code", "op": "eq", "value": "b"},
    {"field": "stock", "op": "range", "value": {"gte": 1}},
]
NARROWED: Final[list[tuple[Json, Callable[[Json], bool]]]] = [
    ({"any_of": [RED, FIRST]}, lambda item: item["colour"] == "red" or item["metadata"]["page no."] == 1),
    ({"none_of": [RED, FIRST]}, lambda item: item["colour"] != "red" and item["metadata"]["page no."] != 1),
    ({"field": "variants", "op": "nested", "value": STOCKED}, lambda item: item["variants"][1]["stock"] == 1),
    (
        {"any_of": [{"all_of": [RED, FIRST]}, {"field": "variants", "op": "nested", "value": [{"none_of": STOCKED}]}]},
        lambda item: (
            (item["colour"] == "red" and item["metadata"]["page no."] == 1)
            or any(each["code"] != "b" and each["stock"] < 1 for each in item["variants"])
        ),
    ),
]


@pytest.mark.parametrize("place", range(len(NARROWED)))
def test_groups_narrow_what_is_found(shop: Shop, place: int) -> None:
    """A search and a lookup find the documents that pass when read one by one, from the cache as well."""
    wanted, passes = NARROWED[place]
    expected = {id_ for id_, item in LANTERNS.items() if passes(item)}
    assert 0 < len(expected) < len(LANTERNS)
    for event in (QUERY, {"namespace": NAMESPACE, "limit": 200}):
        answers = [shop.ask({**event, "filters": [wanted]}) for _ in range(2)]
        assert [{*ids(answer)} for answer in answers] == [expected] * 2
        assert answers[1]["retrieval_stage"] == "exact_cache"


def test_a_fault_in_a_group_is_refused(shop: Shop) -> None:
    """As any other fault of an event."""
    refused = shop.ask({**QUERY, "filters": [{"any_of": [RED, {"all_of": []}]}]})
    assert (refused["status"], refused["error"]["class"]) == ("invalid", "invalid")


@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize("rerank", [True, False])
def test_relevant_results_are_ordered(shop: Shop, direction: str, rerank: bool) -> None:
    """By the field, equal values by rank, and what has none last; pages are the long page cut, and `total` the same."""
    query = {**QUERY, "rerank": rerank, "recipe": "hybrid", "now": 1_700_001_000}
    ranked = shop.ask(query)
    order = {"order_by": {"field": "size", "direction": direction}}
    hits = [hit for hit in ranked["results"] if hit["relevance"] >= 0]
    least = sorted(hit["relevance"] for hit in hits)[len(hits) // 3]
    for relevance in (0.0, least):
        fitting = [hit["id"] for hit in hits if hit["relevance"] >= relevance]
        sized = [id_ for id_ in fitting if "size" in LANTERNS[id_]]
        sized.sort(key=lambda id_: LANTERNS[id_]["size"], reverse=direction == "desc")
        expected = sized + [id_ for id_ in fitting if id_ not in sized]
        pages = shop.pages({**query, **order, "min_relevance": relevance, "limit": 7})
        assert [id_ for page in pages for id_ in ids(page)] == expected
        assert {page["total"] for page in pages} == {len(fitting)}
    assert len(sized) < len(fitting) < len(hits)


def test_an_order_needs_an_index(shop: Shop) -> None:
    """A search is refused as a lookup is."""
    refused = shop.ask({**QUERY, "order_by": {"field": "colour"}})
    assert (refused["status"], refused["error"]["class"]) == ("invalid", "invalid")


PAGED: Final[list[Json]] = [
    {**QUERY, "limit": 16},
    {**QUERY, "limit": 16, "recipe": "hybrid", "order_by": {"field": "size"}},
    {
        "namespace": NAMESPACE,
        "filters": [{"any_of": [{"field": "subject", "op": "eq", "value": "lanterns"}]}],
        "limit": 16,
    },
]


@pytest.mark.parametrize("place", range(len(PAGED)))
def test_pages_go_on_after_a_write(shop: Shop, place: int) -> None:
    """By `continue`: all documents that stay are given once, whatever is written between pages, and the page says that
    the index has changed. A strict cursor has expired. A page that is asked for again comes from the cache.
    """
    event = PAGED[place]
    given = ids(page := shop.ask(event))
    new: list[Json] = []
    while page["next_cursor"] is not None:
        gone = [{"id": each["id"], "namespace": NAMESPACE, "op": "delete"} for each in new]
        new = [{**_lantern(100 + len(given)), "text": "A harbor lantern.", "id": f"new{place} {len(given)}"}]
        shop.write([*gone, *new, {**LANTERNS[given[0]], "text": f"A lantern, mended {len(given)} times."}])
        following = {**event, "cursor": page["next_cursor"]}
        assert shop.ask(following)["error"]["class"] == "cursor_expired"
        page, again = (shop.ask({**following, "cursor_policy": "continue"}) for _ in range(2))
        assert any("has changed since the cursor's page" in said for said in page["warnings"])
        assert (ids(again), again["warnings"]) == (ids(page), page["warnings"])
        assert again["retrieval_stage"] == "exact_cache"
        given += ids(page)
        assert len(given) < 100
    assert len(set(given)) == len(given)
    assert LANTERNS.keys() <= set(given)
    shop.write([*LANTERNS.values(), {"id": new[0]["id"], "namespace": NAMESPACE, "op": "delete"}])


def test_a_page_misses_nothing_where_a_result_before_it_expired(shop: Shop) -> None:
    """No watermark tells of it: a strict cursor stays good, and leads to the results that were not given yet."""
    event = {**QUERY, "limit": 8}
    victim = ids(shop.ask(event))[3]
    for patience in (2, 10, 40):
        shop.write([{**LANTERNS[victim], "expires_at": time.time() + patience}])
        page, every = shop.ask(event), ids(shop.ask({**QUERY, "limit": 200}))
        # A slow machine may ask for it too late.
        if victim in ids(page) and victim in every:
            break
    wait_until(lambda: victim not in ids(shop.ask(event)))
    given = ids(page)
    while page["next_cursor"] is not None:
        page = shop.ask({**event, "cursor": page["next_cursor"]})
        assert page["warnings"] == []
        given += ids(page)
    assert given == every
    shop.write([LANTERNS[victim]])


def test_a_continued_page_of_an_unchanged_index_is_the_strict_one(shop: Shop) -> None:
    """Without a warning, and after a continued page a strict one goes on, as long as nothing is written."""
    event = PAGED[0]
    cursor = shop.ask(event)["next_cursor"]
    strict, lenient = (shop.ask({**event, "cursor": cursor, "cursor_policy": each}) for each in ("strict", "continue"))
    assert ids(strict) == ids(lenient)
    assert strict["warnings"] == lenient["warnings"] == []
    shop.write([LANTERNS["lantern1"]])
    second = shop.ask({**event, "cursor": cursor, "cursor_policy": "continue"})
    third = shop.ask({**event, "cursor": second["next_cursor"]})
    assert third["warnings"] == []
    assert not {*ids(third)} & {*ids(second)}
