"""The fast path, through the running flow: which queries take it, and what it answers."""

import pytest

from tests.integration.cascade import Json, System, ids, listed

pytest_plugins = ["tests.integration.cascade_running"]
pytestmark = pytest.mark.slow

ADA: Json = {"namespace": "crew", "subject": "ada"}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"limit": 0},
        {"limit": 3},
        {"profile": "fast"},
        {"profile": "deep"},
        {"recipe": "decay"},
        {"text": ""},
        {"text": " \n"},
        {"filters": []},
        {"explain": True},
        {"source": "empty"},
        {"include_reflections": True},
        {"now": 5_000},
    ],
)
def test_a_subject_is_looked_up(kitchen: System, more: Json) -> None:
    """A subject and a limit, said or not, make the fast path, whatever else doesn't ask for a search."""
    kitchen.qdrant.forget()
    answer = kitchen.ask({**ADA, **more})
    assert (answer["retrieval_stage"], answer["status"]) == ("fast_path", "ok")
    assert [each["name"] for each in answer["legs"]] == ["structured"]
    assert answer["backends_used"] == ["structured"]
    assert "reranked" not in answer
    (search,) = kitchen.qdrant.searches()
    assert search["order_by"] == {"key": "_created", "direction": "desc"}


@pytest.mark.parametrize(
    ("more", "stage"),
    [
        ({"text": "ada"}, "hybrid_merge"),
        ({"vector": [1.0] + [0.0] * 383}, "semantic"),
        ({"filters": [{"field": "subject", "op": "exists", "value": True}]}, "structured"),
        ({"actor_type": "agent"}, "structured"),
        ({"order_by": {"field": "created_at"}}, "structured"),
        ({"subject": None, "actor_type": "agent"}, "structured"),
    ],
)
def test_anything_to_search_or_filter_by_is_none(kitchen: System, more: Json, stage: str) -> None:
    """A text, a vector, filters, an actor type, an order: the query isn't the fast path's."""
    answer = kitchen.ask({**ADA, **more})
    assert answer["retrieval_stage"] == stage
    assert answer["results"]


def test_the_newest_come_first_and_the_undated_last(kitchen: System) -> None:
    """By `created_at` from the newest on, those without it at the end; of this subject and namespace alone."""
    found = ids(kitchen.ask(ADA))
    assert found[0] == "last"
    assert set(found[1:3]) == {"tied", "tied too"}
    assert found[3] == "first"
    assert set(found[4:]) == {"undated", "undated too"}
    assert [hit["rank"] for hit in kitchen.ask(ADA)["results"]] == [1, 2, 3, 4, 5, 6]


def test_pages_of_the_fast_path(kitchen: System) -> None:
    """Pages are disjoint and together the long page, ties and undated ones included; a cursor makes it a lookup."""
    for limit in (1, 2, 4, 5):
        (pages,) = kitchen.pages([{**ADA, "limit": limit}])
        assert listed(pages) == ids(kitchen.ask(ADA))
        assert [page["retrieval_stage"] for page in pages] == ["fast_path"] + ["structured"] * (len(pages) - 1)
        assert [page["has_more"] for page in pages] == [True] * (len(pages) - 1) + [False]


def test_nothing_found_is_the_answer(kitchen: System) -> None:
    """An unknown subject has no results, and no other leg is asked for it: counts alone, which say why."""
    kitchen.qdrant.forget()
    answer = kitchen.ask({**ADA, "subject": "nobody"})
    assert (answer["retrieval_stage"], answer["status"], answer["results"]) == ("fast_path", "ok", [])
    assert len(kitchen.qdrant.searches()) == 1
    assert {each.path.rpartition("/")[2] for each in kitchen.qdrant.asked} == {"scroll", "count"}
    assert answer["warnings"] == ["no results: no document passes subject"]


def test_it_comes_after_stage_0(kitchen: System) -> None:
    """A source that policies refuse is refused here, too."""
    answer = kitchen.ask({**ADA, "source": "retrieval_firewall_denied without"})
    assert (answer["status"], answer["retrieval_stage"]) == ("denied", "policy")


def test_it_is_computed_every_time(kitchen: System) -> None:
    """The stages after it, the caches among them, are not for it."""
    kitchen.qdrant.forget()
    assert {kitchen.ask({**ADA, "limit": 7})["retrieval_stage"] for _ in range(3)} == {"fast_path"}
    assert len(kitchen.qdrant.searches()) == 3
