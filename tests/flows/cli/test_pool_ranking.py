"""Ranking offline: what a pool's legs, clock, verdict and query make of its result."""

from typing import Any

import orjson
import pytest

from flows.cli.rank import PoolRanker
from schemas.errors import DeadLetterClass, InputError
from schemas.recipes import SHIPPED
from schemas.result import VERSION, ResultEvent
from schemas.settings import load

NOW = "2024-03-01T12:00:00Z"
LATE = "2025-03-01T12:00:00Z"


def hit(id_: str, score: float, day: str, **payload: Any) -> dict[str, Any]:
    """A hit of a document of that day."""
    return {"id": id_, "score": score, "payload": {"text": f"text {id_}", "created_at": f"{day}T12:00:00Z", **payload}}


VECTOR = [
    hit("old", 0.9, "2023-03-01", importance=5),
    hit("week", 0.8, "2024-02-23"),
    hit("sum", 0.4, "2024-02-29", type="reflection"),
]
KEYWORD = [hit("week", 7.0, "2024-02-23"), hit("late", 3.0, "2024-06-01"), hit("old", 1.0, "2023-03-01")]
LEGS = [{"name": "vector", "hits": VECTOR}, {"name": "keyword", "hits": KEYWORD}]


def pool(legs: Any = LEGS, at: Any = None, rerank_scores: Any = None, **query: Any) -> dict[str, Any]:
    """A pool of these legs, with this clock and these scores of a reranker; what isn't given is missing."""
    document = {"query": {"query_id": "q", "text": "a text", **query}, "legs": legs}
    given = {"now": at, "rerank": rerank_scores, "measure": "share" if rerank_scores is not None else None}
    return document | {name: value for name, value in given.items() if value is not None}


def ranked(document: dict[str, Any], ranker: PoolRanker | None = None) -> dict[str, Any]:
    """The pool's result, as it is printed, which must hold to the contract."""
    line = orjson.dumps((ranker or by(None))(orjson.dumps(document)))
    ResultEvent.model_validate_json(line)
    result: dict[str, Any] = orjson.loads(line)
    return result


def by(recipe: str | None, *, explain: bool = False, **sections: Any) -> PoolRanker:
    """The ranker by a recipe, under these sections of a configuration, if any."""
    settings = load(None, {"qdrant": {"url": "http://q"}, **sections}) if sections else None
    return PoolRanker.of(settings, recipe, explain=explain)


def refusal(document: dict[str, Any], ranker: PoolRanker | None = None) -> str:
    """The message about a pool that can't be ranked."""
    with pytest.raises(InputError) as caught:
        ranked(document, ranker)
    assert caught.value.kind is DeadLetterClass.INVALID
    return str(caught.value)


def ids(result: dict[str, Any]) -> list[str]:
    """The order alone."""
    return [each["id"] for each in result["results"]]


def scores(result: dict[str, Any]) -> dict[str, float]:
    """Each result's score."""
    return {each["id"]: each["score"] for each in result["results"]}


# Legs


def test_a_pool_with_words_is_covered() -> None:
    """The document that has the query's part number is first, and nothing is missed."""
    legs = [
        {"name": "vector", "hits": [{"id": "a", "score": 0.75}, {"id": "b", "score": 0.25}]},
        {"name": "keyword", "hits": [{"id": "b", "score": 3.0}]},
    ]
    words = {"sx-12": {"b": ["sku"]}}
    result = ranked({**pool(legs, text="SX-12", explain=True), "words": words})
    assert ids(result) == ["b", "a"]
    assert result["results"][0]["explanation"]["stages"][1]["values"]["words"]["sx-12"]["fields"] == ["sku"]
    assert not any("coverage" in warning for warning in result["warnings"])


def test_a_result_by_hand() -> None:
    """Every part of the result of a pool with two legs: halves of 1 and 1 / 2, places, provenance without a place."""
    legs = [
        {"name": "vector", "hits": [{"id": "a", "score": 0.75, "payload": {"text": "x", "n": 1}}]},
        {
            "name": "keyword",
            "hits": [{"id": "b", "score": 2}, {"id": "a", "score": 1, "payload": {"text": "x", "n": 1}}],
        },
    ]
    result = ranked(pool(legs, at=5, limit=1, metadata={"m": 1}))
    assert len(result.pop("result_id")) == 32
    assert result == {
        "schema_version": 1,
        "query_id": "q",
        "status": "ok",
        "profile": "balanced",
        "retrieval_stage": "hybrid_merge",
        "results": [
            {
                "id": "a",
                "rank": 1,
                "score": 0.75,
                "relevance": 0.75,
                "text": "x",
                "payload": {"n": 1},
                "legs": {"vector": {"rank": 0, "score": 0.75}, "keyword": {"rank": 1, "score": 1.0}},
            }
        ],
        "total": 2,
        "total_relation": "eq",
        "has_more": True,
        "next_cursor": None,
        "backends_used": ["vector", "keyword"],
        "semantic_unavailable": False,
        "legs": [
            {"name": "vector", "status": "ok", "reason": None, "candidates": 1},
            {"name": "keyword", "status": "ok", "reason": None, "candidates": 2},
        ],
        "degraded": [],
        "warnings": ["the pool has no words: the stage coverage changes nothing"],
        "removed_by_firewall": 0,
        "provenance": {
            "version": VERSION,
            "config_hash": None,
            "recipe": "hybrid",
            "recipe_hash": SHIPPED["hybrid"].hash,
            "models": {"embedder": None, "reranker": None},
            "index_watermark": None,
            "now": "1970-01-01T00:00:05.000Z",
            "source": None,
        },
        "metadata": {"m": 1},
    }


def test_a_document_has_the_payload_that_was_ranked_by() -> None:
    """The first leg that has a document gives its text and payload, where legs differ."""
    legs = [
        {"name": "vector", "hits": [hit("a", 0.75, "2024-01-01", n=1)]},
        {"name": "keyword", "hits": [{"id": "a", "score": 1}, {"id": "b", "score": 1, "payload": {"n": 2}}]},
    ]
    for each in (legs, legs[::-1]):
        first, second = ranked(pool(each))["results"]
        assert (first["id"], first["text"], first["payload"]["n"]) == ("a", "text a", 1)
        assert (second["id"], second["text"], second["payload"]) == ("b", None, {"n": 2})


EMPTY = {"name": "vector", "hits": []}
STRUCTURED = {"name": "structured", "hits": VECTOR}


@pytest.mark.parametrize(
    ("legs", "query", "status", "degraded"),
    [
        (LEGS, {}, "ok", []),
        (LEGS[:1], {}, "partial", ["keyword"]),
        (LEGS[1:], {}, "partial", ["vector"]),
        ([EMPTY, LEGS[1]], {}, "ok", []),
        ([EMPTY], {"recipe": "vector"}, "ok", []),
        ([], {}, "failed", ["vector", "keyword"]),
        (LEGS[:1], {"recipe": "keyword"}, "failed", ["keyword"]),
        (LEGS[1:], {"recipe": "keyword"}, "ok", []),
        (LEGS[:1], {"recipe": "decay", "now": NOW}, "partial", ["keyword"]),
        ([STRUCTURED], {"recipe": "decay", "now": NOW}, "ok", []),
        ([STRUCTURED], {"recipe": "signals", "now": NOW}, "ok", []),
        ([STRUCTURED], {"recipe": "hybrid"}, "failed", ["vector", "keyword"]),
        (LEGS[1:], {"reflections_only": True}, "failed", ["structured"]),
    ],
)
def test_a_missing_leg_was_unavailable_and_an_empty_one_found_nothing(
    legs: Any, query: dict[str, Any], status: str, degraded: list[str]
) -> None:
    """Of the legs that the recipe wants the missing ones are lost, all lost is failed; others are not missed. A pool of
    a query with nothing to search by has the recipe's other leg instead.
    """
    result = ranked(pool(legs, **query))
    assert result["status"] == status
    assert result["degraded"] == [{"stage": name, "reason": "unavailable"} for name in degraded]
    assert result["semantic_unavailable"] is ("vector" in degraded)
    lost = {leg["name"] for leg in result["legs"] if leg["status"] == "failed"}
    assert lost == set(degraded)
    assert bool(result["results"]) == (status != "failed" and legs != [EMPTY])


def test_a_leg_that_the_recipe_does_not_want_takes_no_part() -> None:
    """Another recipe may want fewer legs than were recorded: the rest are skipped by it, and not lost."""
    result = ranked(pool([*LEGS, {"name": "structured", "hits": VECTOR}], recipe="keyword"))
    assert result["backends_used"] == ["keyword"]
    assert [(leg["name"], leg["status"], leg["reason"]) for leg in result["legs"]] == [
        ("vector", "skipped", "recipe"),
        ("keyword", "ok", None),
    ]


def test_a_leg_of_ones_own_takes_part() -> None:
    """A pool made by hand may have a leg that the flow doesn't: it is fused as its weight says."""
    legs = [*LEGS, {"name": "image", "hits": [hit("picture", 1.0, "2024-01-01")]}]
    result = ranked(pool(legs, overrides={"rrf": {"weights": {"image": 9.0}}}, recipe="rrf"))
    assert ids(result)[0] == "picture"
    assert result["backends_used"] == ["vector", "keyword", "image"]


# The clock


@pytest.mark.parametrize(
    ("at", "asked", "clock"),
    [(NOW, LATE, NOW), (NOW, None, NOW), (None, NOW, NOW), (1709294400, None, NOW), (0, LATE, "1970-01-01T00:00:00Z")],
)
def test_the_pools_now_goes_before_the_querys(at: Any, asked: Any, clock: str) -> None:
    """The pool's clock is what is ranked by and what provenance says, the query's where the pool has none."""
    result = ranked(pool(at=at, recipe="decay", now=asked))
    assert result["provenance"]["now"] == clock.replace("Z", ".000Z")
    assert scores(result) == scores(ranked(pool(recipe="decay", now=clock)))
    assert scores(result) != scores(ranked(pool(recipe="decay", now=LATE)))


@pytest.mark.parametrize(
    ("recipe", "stage"), [("composite", "temporal"), ("distance", "weibull_decay"), ("decay", "decay")]
)
def test_a_missing_now_is_said_by_the_stage_that_needs_it(recipe: str, stage: str) -> None:
    """A recipe whose stage needs a clock names `now` and the stage if there is none; with one it ranks."""
    assert refusal(pool(recipe=recipe)).startswith(f"now: required by the stage {stage}")
    assert ranked(pool(recipe=recipe, at=NOW))["results"]


@pytest.mark.parametrize(
    "query",
    [
        *({"recipe": name} for name in ("hybrid", "signals", "rrf", "keyword", "vector")),
        {"recipe": "signals", "current_cycle": 3},
        {"recipe": "distance", "overrides": {"weibull_decay": {"enabled": False}}},
        {"recipe": "decay", "profile": "fast"},
        {"recipe": "composite", "reflections_only": True},
    ],
)
def test_who_needs_no_clock_asks_for_none(query: dict[str, Any]) -> None:
    """Stages that read no time, and those that don't run, need none."""
    result = ranked(pool(**query))
    assert result["results"]
    assert result["provenance"]["now"] is None


def test_the_time_in_the_query_counts_from_the_pools_now() -> None:
    """`A week ago` is a week before the clock; a time that a chat model read is read by the rules, with a warning."""
    stages: list[Any] = ["score", {"temporal": {"boost": 5.0}}]
    ranker = by("told", recipes={"told": {"stages": stages}})
    assert ids(ranked(pool(text="a week ago", at=NOW), ranker))[0] == "week"
    assert ids(ranked(pool(text="a year ago", at=NOW), ranker))[0] == "old"
    chat: dict[str, Any] = {"kind": "openai", "url": "http://c/v1", "model": "m"}
    stages[1]["temporal"]["extractor"] = "chat"
    result = ranked(pool(text="a week ago", at=NOW), by("told", recipes={"told": {"stages": stages}}, chat=chat))
    assert ids(result)[0] == "week"
    assert "the time in the query was read by the rules, not by a chat model" in result["warnings"]


def test_a_document_after_now_is_said() -> None:
    """A document of the future counts as new, and the result says how many there were."""
    result = ranked({**pool(recipe="decay", at=NOW), "words": {}})
    assert result["warnings"] == ["1 candidate dated after the query's now: age counted as 0"]


# Reflections and limits


CONTENTS = [("a", 3.0, 0), ("b", 2.0, 1), ("c", 1.0, 0)]


def test_a_pool_says_which_documents_are_duplicates() -> None:
    """By the numbers of their contents, where it has them: two products with one text may be of two brands."""
    hits = [hit(id_, score, NOW[:10], text="x", _content=content) for id_, score, content in CONTENTS]
    answer = ranked(pool(legs=[{"name": "keyword", "hits": hits}], recipe="keyword"))
    assert [each["id"] for each in answer["results"]] == ["a", "b"]


def test_reflections_are_left_out_or_alone() -> None:
    """As the query says: with the others, without them, or nothing else, by cosine, else the newest at 0."""
    assert "sum" in ids(ranked(pool()))
    without = ranked(pool(include_reflections=False))
    assert without["total"] == 3
    assert "sum" not in ids(without)
    assert scores(ranked(pool(reflections_only=True))) == {"sum": 0.4}
    structured = [{"name": "structured", "hits": [{**each, "score": 0} for each in VECTOR]}]
    result = ranked(pool(structured, reflections_only=True))
    assert (scores(result), result["status"]) == ({"sum": 0.0}, "ok")


def test_a_boost_multiplies_reflections() -> None:
    """In a recipe with that stage."""
    plain, lifted = (scores(ranked(pool(recipe="signals", reflection_boost=boost))) for boost in (1.0, 3.0))
    assert lifted == {**plain, "sum": 3 * plain["sum"]}


@pytest.mark.parametrize(("limit", "shown"), [(0, 20), (1, 1), (30, 30), (200, 200), (250, 200)])
def test_the_querys_limit_is_the_pages(limit: int, shown: int) -> None:
    """A page is as long as in the flow; total and has_more tell of the rest."""
    hits = [{"id": f"d{n}", "score": 1 - n / 1000} for n in range(220)]
    result = ranked(pool([{"name": "vector", "hits": hits}], recipe="vector", limit=limit))
    assert ids(result) == [f"d{n}" for n in range(shown)]
    assert (result["total"], result["has_more"]) == (220, True)


def test_a_leg_that_the_profile_skips_is_no_loss() -> None:
    """A pool of `fast` has no vector leg, as it embeds nothing: offline that is no more a loss than it was."""
    result = ranked(pool(LEGS[1:], profile="fast"))
    assert result["status"] == "ok"
    assert {leg["name"]: leg["reason"] for leg in result["legs"]} == {"vector": "profile", "keyword": None}


def test_a_group_is_ranked_by_its_key() -> None:
    """Its key is what `evaluate` judges, a document without one keeps its id, and the result has the group."""
    legs = [
        {
            "name": "vector",
            "hits": [
                hit("a", 0.9, "2024-02-23", parent="p"),
                hit("b", 0.8, "2024-02-23"),
                hit("c", 0.7, "2024-02-23", parent="p"),
                hit("d", 0.2, "2024-02-23", parent="q"),
            ],
        },
    ]
    document = pool(legs, recipe="vector", group_by="parent", group_size=2, limit=2)
    ranker = by(None)
    assert [id_ for id_, _ in ranker.rank_all(ranker.read_pool(orjson.dumps(document))).ranked] == ["p", "b", "q"]
    result = ranked(document)
    assert (ids(result), result["total"], result["has_more"]) == (["a", "b"], 3, True)
    assert [(each["group"]["key"], each["group"]["count"]) for each in result["results"]] == [("p", 2), (None, 1)]
    assert [each["id"] for each in result["results"][0]["group"]["results"]] == ["c"]


@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_the_querys_order_is_the_results(direction: str) -> None:
    """Of the candidates by a field of theirs; those without it come last, and the scores stay."""
    plain = ranked(pool(at=NOW))
    ordered = ranked(pool(at=NOW, order_by={"field": "created_at", "direction": direction}))
    days = sorted(plain["results"], key=lambda hit: hit["payload"]["created_at"], reverse=direction == "desc")
    assert ids(ordered) == [hit["id"] for hit in days] != ids(plain)
    assert {hit["id"]: hit["score"] for hit in ordered["results"]} == {
        hit["id"]: hit["score"] for hit in plain["results"]
    }
    by_importance = ranked(pool(at=NOW, order_by={"field": "importance", "direction": direction}))
    assert ids(by_importance) == ["old", *(id_ for id_ in ids(plain) if id_ != "old")]
