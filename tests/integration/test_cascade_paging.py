"""Pages of merged answers, through the running flow: one long page, cut; and what ends them."""

from typing import Final

import pytest

from schemas.recipes import SHIPPED
from tests.integration.cascade import Json, System, ids, listed

pytest_plugins = ["tests.integration.cascade_running"]
pytestmark = pytest.mark.slow

QUERY: Final[Json] = {"namespace": "log", "text": "entry of the harbor lantern"}
NOW: Final = 1_702_000_000


@pytest.mark.parametrize("rerank", [True, False])
def test_pages_are_one_long_page_cut(kitchen: System, rerank: bool) -> None:
    """By every recipe, reranked or not: disjoint, in the long page's order, with its scores and its `total`."""
    events = [{**QUERY, "recipe": recipe, "limit": 16, "rerank": rerank, "now": NOW} for recipe in SHIPPED]
    cut = kitchen.pages(events)
    long = kitchen.answers([{**event, "limit": 33} for event in events])
    for recipe, pages, whole in zip(SHIPPED, cut, long, strict=True):
        found = listed(pages)
        assert len(set(found)) == len(found) >= max(100, whole["total"]), recipe
        assert found[:33] == ids(whole), recipe
        hits = [hit for page in pages for hit in page["results"]]
        assert [hit["score"] for hit in hits[:33]] == [hit["score"] for hit in whole["results"]], recipe
        assert [hit["rank"] for hit in hits] == list(range(1, len(hits) + 1)), recipe
        assert {page["total"] for page in pages} == {whole["total"]}, recipe
        assert [page["has_more"] for page in pages] == [True] * (len(pages) - 1) + [False], recipe
        assert all(len(page["results"]) == 16 for page in pages[:-1]), recipe
        models = rerank and SHIPPED[recipe].reranking is not None
        assert {("reranked" in page) for page in pages} == {models or recipe == "distance"}, recipe


def test_pages_of_a_pool_of_one_leg(kitchen: System) -> None:
    """A merged pool is at most the over-sample of each leg: 100 of `balanced`, 500 of `deep`."""
    balanced, deep = kitchen.pages(
        [{**QUERY, "recipe": "vector", "limit": 50, "profile": profile} for profile in ("balanced", "deep")]
    )
    assert (balanced[0]["total"], len(listed(balanced))) == (100, 100)
    assert (deep[0]["total"], len(set(listed(deep)))) == (230, 230)


def test_later_pages_are_ranked_at_the_first_ones_moment(kitchen: System) -> None:
    """A query without `now` keeps its first page's clock, so that decay moves nothing between pages."""
    first = kitchen.ask({**QUERY, "recipe": "decay", "limit": 10})
    event = {**QUERY, "recipe": "decay", "limit": 10, "cursor": first["next_cursor"]}
    (second,) = kitchen.answers([event], later=3600)
    assert second["provenance"]["now"] == first["provenance"]["now"]


@pytest.mark.parametrize(
    "shape",
    [
        {"subject": "s1"},
        {"subject": "s1", "actor_type": "agent"},
        {"filters": [{"field": "subject", "op": "eq", "value": "s1"}]},
        {"subject": "s1", "order_by": {"field": "created_at", "direction": "asc"}},
        {"subject": "s1", "text": " "},
        {"subject": "s1", "text": "the"},
    ],
    ids=str,
)
def test_pages_without_a_text_are_one_long_page_cut(kitchen: System, shape: Json) -> None:
    """By every recipe, whatever its order is without a text: a later page goes on in the order of the first."""
    events = [{"namespace": "log", **shape, "recipe": recipe, "now": NOW} for recipe in SHIPPED]
    cut = kitchen.pages([{**event, "limit": 20} for event in events])
    long = kitchen.answers([{**event, "limit": 200} for event in events])
    for recipe, pages, whole in zip(SHIPPED, cut, long, strict=True):
        assert listed(pages) == ids(whole), recipe
    assert all(len(pages) > 1 for pages in cut)


def test_a_cursor_ends_with_the_index_it_was_cut_from(kitchen: System) -> None:
    """After a write to the namespace any further page is `cursor_expired`; a write to another changes nothing."""
    kitchen.write([{"id": f"m{n}", "namespace": "moving", "subject": "x", "text": f"harbor {n}"} for n in range(6)])
    shapes: list[Json] = [
        {"text": "harbor", "limit": 2},
        {"subject": "x", "limit": 2},
        {"filters": [{"field": "subject", "op": "eq", "value": "x"}], "limit": 2},
    ]
    events = [{"namespace": "moving", **shape} for shape in shapes]
    further = [{**event, "cursor": kitchen.ask(event)["next_cursor"]} for event in events]
    kitchen.write([{"id": "n", "namespace": "elsewhere moving", "text": "harbor"}])
    assert [ended.kind for ended in kitchen.together(further)] == ["result"] * 3
    kitchen.write([{"id": "m0", "namespace": "moving", "subject": "x", "text": "harbor 0"}])
    ended = kitchen.together(further)
    assert [each.kind for each in ended] == ["cursor_expired"] * 3
    assert all("ask without it" in each.said for each in ended)


def test_has_more_of_a_page_that_is_just_full(kitchen: System) -> None:
    """A page that holds all there is has no cursor, one that lacks a single document has."""
    everything = {"text": "ada", "namespace": "crew", "subject": "ada", "recipe": "vector"}
    full, lacking = kitchen.answers([{**everything, "limit": limit} for limit in (6, 5)])
    assert (len(full["results"]), full["has_more"], full["next_cursor"]) == (6, False, None)
    assert (len(lacking["results"]), lacking["has_more"]) == (5, True)
    last = kitchen.ask({**everything, "limit": 5, "cursor": lacking["next_cursor"]})
    assert ids(lacking) + ids(last) == ids(full)


@pytest.mark.parametrize("rerank", [True, False])
def test_pages_of_what_fits(kitchen: System, rerank: bool) -> None:
    """With `min_relevance` total, pages and cursors are those of the results that fit so well, in their order; a query
    that nothing fits has none.
    """
    query = {**QUERY, "rerank": rerank, "now": NOW}
    (whole,) = kitchen.pages([{**query, "limit": 16}])
    hits = [hit for page in whole for hit in page["results"]]
    least = sorted(hit["relevance"] for hit in hits)[len(hits) // 2]
    fitting = [hit["id"] for hit in hits if hit["relevance"] >= least]
    (pages,) = kitchen.pages([{**query, "limit": 16, "min_relevance": least}])
    assert whole[0]["total"] > len(fitting) > 16
    assert listed(pages) == fitting
    assert {page["total"] for page in pages} == {len(fitting)}
    assert [page["has_more"] for page in pages] == [True] * (len(pages) - 1) + [False]
    nothing = kitchen.ask({**query, "min_relevance": 1.0})
    assert (nothing["status"], nothing["results"], nothing["total"], nothing["has_more"]) == ("ok", [], 0, False)
