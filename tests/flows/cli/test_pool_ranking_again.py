"""Ranking again: what was recorded ranks as it did, another recipe ranks it its own way, any line is answered."""

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.cli.rank import PoolRanker, find_recipe
from operators.query.cursor import Cursor, PoolSlice, result_digests
from operators.query.in_flight import InFlight
from operators.query.plan import Planner
from operators.ranking.candidate import Leg
from operators.runtime.dispatcher import Bounds
from operators.stages.fuse import fuse_legs
from operators.stages.rerank import Reranking, rank
from operators.stages.temporal_expression import by_rules
from schemas.errors import ConfigError, DeadLetterClass, InputError
from schemas.recipes import SHIPPED, Recipe
from schemas.result import LEGS as NAMES
from schemas.result import ResultEvent
from schemas.settings import load
from schemas.settings.ranking import PROFILES
from tests.flows.cli.test_pool_ranking import NOW, by, ids, pool, ranked, refusal, scores
from tests.operators import samples
from tests.operators.ranking import payloads
from tests.operators.ranking.pools import vector
from tests.operators.ranking.recompute import recompute
from tests.operators.samples import CURSORS, bound, decoder, message
from tests.operators.stages.test_publish import published
from tests.operators.stages.test_rerank_pick import Scripted
from tests.tiers import sized

# Pages and orders


def in_the_flow(**event: Any) -> InFlight:
    """A query with four documents, of two groups and with the index's own times, to the end of its ranking."""
    asked = samples.query(now=1_700_000_000, record=True, recipe="vector", **event)
    cursor = asked.asked.cursor
    if cursor is not None:
        # Written at another watermark.
        asked.continue_page()
    times = {"a": 3000, "b": 1000, "c": 2000, "d": 0}
    stored: dict[str, Mapping[str, Any]] = {
        id_: {"id": f"doc {id_}", "text": id_, "parent": id_ in "ac", "_version": time, "_created": time}
        for id_, time in times.items()
    }
    found = vector(*((id_, 0.9 - place / 10) for place, id_ in enumerate(stored)), payloads=stored)
    asked.outcome.legs = {found.name: found}
    asked = rank(fuse_legs(asked))
    asked.outcome.payloads = stored
    return asked


@pytest.mark.parametrize("groups", [{}, {"group_by": "parent"}], ids=["alone", "in groups"])
@pytest.mark.parametrize("order_by", [None, {"field": "updated_at"}, {"field": "created_at"}], ids=str)
def test_a_continued_page_is_the_page_that_the_flow_gave(groups: dict[str, Any], order_by: Any) -> None:
    """Results of earlier pages are told by themselves, and times are those of the index: documents need have none."""
    event = {**groups, **({"order_by": order_by} if order_by is not None else {}), "limit": 1}
    first = in_the_flow(**event)
    # A write made another document the best: the earlier page had the second one.
    given = tuple(result_digests(first.outcome.candidates[1].payload["id"]))
    cursor = CURSORS.write(Cursor(bound(first), b"s" * 16, 1_700_000_000.0, PoolSlice(1, 100), given))
    for asked in (first, in_the_flow(**event, cursor=cursor, cursor_policy="continue")):
        answer = published(asked)
        assert ids(by(None).rank(by(None).read_pool(orjson.dumps(answer)))) == ids(answer)


# Recipes and verdicts


def test_one_recipe_can_be_found_for_all(tmp_path: Path) -> None:
    """By its name, shipped or of the configuration, or in a file, whose name it then has."""
    path = tmp_path / "mine.yaml"
    path.write_text("stages: [{rrf: {k: 60}}]\nmax_distance: 0\n")
    assert find_recipe("rrf", SHIPPED) is SHIPPED["rrf"]
    assert find_recipe(str(path), SHIPPED) == Recipe.parse("mine", {"stages": [{"rrf": {"k": 60}}], "max_distance": 0})
    own = by("own", recipes={"own": {"stages": ["dbsf"]}})
    assert ranked(pool(recipe="rrf"), own)["provenance"]["recipe"] == "own"
    for wrong in ("nope", str(tmp_path / "nope.yaml"), str(tmp_path), "mine.json"):
        with pytest.raises(ConfigError, match=wrong):
            find_recipe(wrong, SHIPPED)
    path.write_text("stages: [{rrf: {k: 1.0e+9}}]\n")
    with pytest.raises(ConfigError, match=rf"{path}: rrf\.k: .*Input should be less than or equal to 1000000"):
        find_recipe(str(path), SHIPPED)


def test_a_given_recipe_ranks_what_was_overridden_for_another() -> None:
    """A query's overrides of its own recipe's stages are no error of another recipe that lacks them."""
    overrides = {"weighted": {"graph_weight": 1.0}}
    result = ranked(pool(recipe="signals", overrides=overrides), by("rrf"))
    assert result["provenance"]["recipe_hash"] == SHIPPED["rrf"].hash


def test_a_boost_of_reflections_holds_in_any_recipe() -> None:
    """The query's own `reflection_boost` is no part of a recipe: another recipe takes it over."""
    result = ranked(pool(recipe="signals", reflection_boost=2.0), by("rrf"))
    assert result["provenance"]["recipe_hash"] == SHIPPED["rrf"].boosting(2.0).hash


def test_the_configuration_counts() -> None:
    """Its profiles, recipes, decay, bounds and limits hold for pools as for queries, and provenance has its hash."""
    sections: dict[str, Any] = {
        "profiles": {"balanced": {"recipe": "mine", "half_life_days": 100.0}},
        "recipes": {"mine": {"stages": [{"decay": {"enabled": True}}, {"rerank": {"weight": 0.25}}]}},
        "decay": {"destinations": {"default": {"mode": "step"}}},
        "limits": {"overrides": {}, "max_text_chars": 10},
    }
    ranker = by(None, explain=True, **sections)
    result = ranked(pool(at=NOW, rerank_scores={"late": 2.0, "old": 1.0}), ranker)
    assert result["provenance"]["config_hash"] == load(None, {"qdrant": {"url": "http://q"}, **sections}).config_hash()
    assert result["provenance"]["recipe"] == "mine"
    decay, rerank = result["results"][0]["explanation"]["stages"]
    assert (decay["values"]["mode"], decay["values"]["half_life"]) == ("step", 100.0)
    assert rerank["parameters"]["weight"] == 0.25
    assert "a query may not change this" in refusal(pool(overrides={"decay": {"mode": "step"}}), ranker)
    with pytest.raises(InputError) as caught:
        ranked(pool(text="x" * 11), ranker)
    assert caught.value.kind is DeadLetterClass.TOO_LARGE


def test_a_rerankers_scores_are_merged() -> None:
    """By hand: the pool's own recipe takes .6 of the reranker's 1, .5, 0 and .4 of the legs' 0, 1, 3/8, and what the
    reranker left out is out; by another recipe, which may put first what nobody has read, that follows behind.
    """
    rerank_scores = {"sum": 5.0, "late": 1.0, "old": 3.0}
    result = ranked(pool(rerank_scores=rerank_scores))
    assert scores(result) == pytest.approx({"old": 0.7, "sum": 0.6, "late": 0.4 * 3 / 8})
    assert ids(result) == ["old", "sum", "late"]
    assert result["reranked"] is True
    result = ranked(pool(rerank_scores=rerank_scores), by("rrf"))
    # .8 of the reranker's, and .2 of the ranks': 1/5 + 1/7 for old, 1/7 for sum, 1/6 for late.
    late = 0.2 * (1 / 6 - 1 / 7) / (1 / 5)
    assert scores(result) == pytest.approx({"sum": 0.8, "old": 0.6, "late": late, "week": 0.0})
    assert ids(result) == ["sum", "old", "late", "week"]
    assert result["reranked"] is True


def test_what_a_reranker_was_not_given_follows_behind() -> None:
    """As in the flow: it is dropped only if the reranker left out one that it was given."""
    given = {**pool(rerank_scores={"sum": 5.0, "late": 1.0, "old": 3.0}), "unscored": ["week"]}
    result = ranked(given)
    assert ids(result) == ["old", "sum", "late", "week"]
    assert (result["reranked_candidates"], result["unscored_candidates"]) == (3, 1)
    assert ids(ranked({**given, "rerank": {"sum": 5.0, "late": 1.0}})) == ["sum", "late"]


def test_where_all_are_scored_the_profile_says_how_many_count() -> None:
    """As in the flow, whatever the recipe puts first: of four scored candidates two are reranked, the others follow."""
    few = by("hybrid", profiles={"balanced": {"rerank_top": 2}})
    order = ids(ranked(pool(rerank=False), few))
    rising = {id_: float(place) for place, id_ in enumerate(order)}
    assert len(order) == 4
    assert ids(ranked(pool(rerank_scores=rising), few)) == [order[1], order[0], *order[2:]]
    assert ids(ranked(pool(rerank_scores=rising), by("hybrid"))) == order[::-1]


@pytest.mark.parametrize("query", [{"rerank": False}, {"profile": "fast"}, {"reflections_only": True}])
def test_a_verdict_that_the_query_does_not_want_is_left_out(query: dict[str, Any]) -> None:
    """With `rerank: false`, by a profile without a reranker and of reflections alone the order is the recipe's."""
    plain, judged = ranked(pool(**query)), ranked(pool(rerank_scores={"sum": 9.0, "late": 1.0}, **query))
    assert plain["results"] == judged["results"]
    assert "reranked" not in judged


def test_a_recorded_pick_moves_one() -> None:
    """In a recipe in which the chat model picks, the best of the verdict goes first, at half the smallest distance."""
    stages: list[Any] = ["vector", {"llm_rerank": {"enabled": True}}]
    chat = {"kind": "openai", "url": "http://c/v1", "model": "m"}
    ranker = by("picked", recipes={"picked": {"stages": stages}}, chat=chat)
    result = ranked(pool(rerank_scores={"sum": 1.0}), ranker)
    assert scores(result) == {"sum": pytest.approx(0.95), "old": 0.9, "week": 0.8}
    assert ids(ranked(pool(rerank_scores={}), ranker)) == ["old", "week", "sum"]


# What was recorded

DECODER = decoder(planner=Planner(PROFILES, payloads.RECIPES))


def in_json(payload: Mapping[str, Any], own: str) -> dict[str, Any]:
    """The writable part of a payload, with an own id that no other has."""
    written: dict[str, Any] = {"id": own}
    for name, value in payload.items():
        try:
            written.setdefault(name, orjson.loads(orjson.dumps(value)))
        except TypeError:
            continue
    return written


def answered(random: Random, recipe: str, kept: float, **event: Any) -> InFlight:
    """A query of random legs, ranked and reranked as the flow does; of a share `kept` the reranker has a score."""
    asked = {"query_id": "q", "text": "the weather report, three weeks ago", "now": NOW, "recipe": recipe, **event}
    query = by_rules(DECODER(message({**asked, "record": True, "explain": True})))
    wanted = {*payloads.RECIPES[recipe].fusion.legs, "image"}
    for leg in payloads.pool(random):
        if leg.name in wanted or leg.name not in NAMES:
            cleaned = [in_json(payload, f"doc-{id_}") for id_, payload in zip(leg.ids, leg.payloads, strict=True)]
            query.outcome.legs[leg.name] = Leg(leg.name, leg.status, leg.ids, leg.scores, cleaned)
    query = fuse_legs(query)
    query.outcome.payloads = {
        id_: payload for leg in query.outcome.legs.values() for id_, payload in zip(leg.ids, leg.payloads, strict=True)
    }
    reranking = Reranking(Scripted("any", {}), Bounds(1, 1, 1))
    asking = reranking.ask(query)
    if asking is not None:
        request = asking[1]
        read = [id_ for id_ in request.documents if random.random() < kept]
        query = reranking.on_result(query, {id_: random.uniform(-5, 5) for id_ in read})
    return rank(query)


def same(query: InFlight) -> None:
    """The pool of a query's answer ranks to the same results and the same steps, but for a verdict's parameters."""
    online = published(query)
    offline = ranked(online["pool"], PoolRanker(DECODER.normalise.planner, DECODER.limits))
    assert offline["provenance"]["recipe_hash"] == online["provenance"]["recipe_hash"]
    assert [(hit["id"], hit["score"]) for hit in offline["results"]] == [
        (hit["id"], hit["score"]) for hit in online["results"]
    ]
    assert (offline.get("reranked"), offline["total"]) == (online.get("reranked"), online["total"])
    for again, before in zip(offline["results"], online["results"], strict=True):
        assert [(step["stage"], step["output"]) for step in again["explanation"]["stages"]] == [
            (step["stage"], step["output"]) for step in before["explanation"]["stages"]
        ]


@pytest.mark.slow
@pytest.mark.parametrize("recipe", payloads.RECIPES)
def test_a_recorded_pool_ranks_as_it_did(recipe: str) -> None:
    """Whatever the legs held and the reranker said, offline the same recipe gives the same results and scores."""
    for seed in range(sized(7, nightly=20)):
        random = Random(seed)
        same(answered(random, recipe, 1.0))
        same(answered(random, recipe, 1.0, rerank=False, limit=3))
        same(answered(random, recipe, 1.0, include_reflections=False, profile="fast"))


def test_what_the_reranker_left_out_stays_out() -> None:
    """A candidate that was read and judged irrelevant is no result of the same recipe offline, either."""
    for seed in range(20):
        same(answered(Random(seed), "hybrid", 0.5))


@pytest.mark.parametrize("recipe", ["composite", "signals", "decay", "distance", "rrf"])
def test_another_recipe_explains_what_it_makes_of_it(recipe: str) -> None:
    """A pool recorded by one recipe is ranked by any other, and each score can be computed again."""
    for seed in range(10):
        recorded = published(answered(Random(seed), "hybrid", 1.0))["pool"]
        for hit in ranked(recorded, by(recipe))["results"]:
            assert list(recompute(hit["explanation"]))[-1].recomputed == pytest.approx(hit["score"], abs=1e-9)


def test_a_pool_is_echoed_if_it_is_to_be_recorded() -> None:
    """A result that carries its pool carries the one that it was ranked from, which ranks to the same result."""
    first = ranked(pool(record=True, recipe="signals", at=NOW))
    assert first["pool"] == pool(record=True, recipe="signals", at=NOW)
    assert ranked(first["pool"])["results"] == first["results"]
    assert "pool" not in ranked(pool(recipe="signals", at=NOW))


# Whatever comes

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


def mostly(good: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Something good; one time in twenty anything."""
    return st.integers(0, 19).flatmap(lambda luck: values if luck == 13 else good)


payload = st.dictionaries(
    st.sampled_from(sorted([*payloads.FIELDS, "id", "_content"])),
    values | st.sampled_from([5, NOW, "P1", "reflection"]),
    max_size=4,
)
hit = st.fixed_dictionaries(
    {"id": st.sampled_from("abcd"), "score": st.floats(-1e38, 1e38)}, optional={"payload": payload}
)
leg = st.fixed_dictionaries(
    {"name": st.sampled_from([*NAMES, "image"]), "hits": st.lists(mostly(hit), min_size=1, max_size=5)}
)
query = st.fixed_dictionaries(
    {"query_id": st.just("q"), "text": st.sampled_from(["a week ago", "x"])},
    optional={
        "recipe": mostly(st.sampled_from(list(SHIPPED))),
        "overrides": mostly(st.just({"max_distance": 0.5})),
        "limit": mostly(st.integers(0, 300)),
        "rerank": mostly(st.booleans()),
        "reflections_only": mostly(st.booleans()),
        "current_cycle": mostly(st.integers(-9, 9)),
        "vector": mostly(st.lists(st.floats(-1, 1), min_size=1, max_size=2)),
    },
)
lines = mostly(
    st.fixed_dictionaries(
        {
            "query": mostly(query),
            "legs": mostly(st.lists(leg, min_size=1, max_size=4, unique_by=lambda each: each["name"])),
        },
        optional={
            "rerank": mostly(st.dictionaries(st.sampled_from("abcde"), st.floats(-1, 1))),
            "now": mostly(st.just(NOW)),
        },
    )
)


@pytest.mark.slow
@settings(max_examples=sized(100, nightly=400))
@given(lines, st.sampled_from([None, *SHIPPED]))
def test_any_json_is_a_result_or_an_input_error(document: Any, recipe: str | None) -> None:
    """Whatever stands on a line, it is a result that holds to the contract, or an error of the line's own."""
    line = orjson.dumps(document)
    try:
        result = by(recipe, explain=True)(line)
    except InputError:
        return
    printed = orjson.dumps(result)
    ResultEvent.model_validate_json(printed)
    assert orjson.dumps(by(recipe, explain=True)(line)) == printed


@pytest.mark.parametrize("line", [b"", b"\xff", b"{", b"[]", b"NaN", b'{"query": {}, "query": {}}', b"[" * 500])
def test_any_bytes_are_an_input_error(line: bytes) -> None:
    """A line that is no JSON object is an error of the line, too."""
    with pytest.raises(InputError):
        by(None)(line)
