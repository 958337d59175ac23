"""Rank: what stands behind the model runs on its scores, and nothing else is moved."""

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.query.cursor import result_digests
from operators.query.in_flight import InFlight
from operators.query.outcome import Results
from operators.ranking.candidate import Candidate
from operators.ranking.grouping import Grouping
from operators.ranking.run import ModelScores
from operators.stages.fuse import fuse_legs
from operators.stages.rerank import rank
from schemas.query import OrderBy, QueryShape
from tests.operators.ranking.pools import structured, vector
from tests.operators.samples import query

NOW = 1_700_000_000
DAY = 86_400


def found(**event: Any) -> InFlight:
    """A query that found three documents, the last one today's; the model puts the second first."""
    asked = query(now=NOW, **event)
    hits = [("a", 0.9), ("b", 0.8), ("c", 0.1)]
    ages = {"a": 90, "b": 30, "c": 0}
    payloads = {id_: {"text": id_, "created_at": NOW - DAY * age} for id_, age in ages.items()}
    lookup = asked.asked.shape is not QueryShape.SEARCH
    leg = structured(*payloads, payloads=payloads) if lookup else vector(*hits, payloads=payloads)
    asked.outcome.legs = {leg.name: leg}
    asked = fuse_legs(asked)
    asked.outcome.rerank_scores = ModelScores({"a": 0.1, "b": 0.9, "c": 0.2}, 3, model="model")
    return asked


def order(asked: InFlight) -> list[str]:
    """The candidates, best first."""
    return [each.id for each in asked.outcome.candidates]


def lose(asked: InFlight, id_: str) -> None:
    """A fetch finds that the document is gone."""
    asked.outcome.results = replace(asked.outcome.results, gone=asked.outcome.results.gone | {id_})


def give(asked: InFlight, id_: str) -> int:
    """An earlier page gave the result; the number of first candidates that earlier pages gave."""
    asked.outcome.results = replace(asked.outcome.results, given=frozenset(result_digests(id_)))
    return asked.outcome.results.passed


def test_stages_behind_the_model_take_its_score() -> None:
    """Composite adds recency to the model's relevance: today's document goes before the model's first. In `hybrid`, .6
    of the model's 0, 1, .125 and .4 of the legs' 1, .875, 0 count.
    """
    recent = {"composite": {"relevance": 0.2, "recency": 0.8}}
    asked = rank(found(recipe="composite", overrides=recent))
    assert order(asked) == ["c", "b", "a"]
    assert order(rank(found(recipe="hybrid"))) == ["b", "a", "c"]


@pytest.mark.parametrize("recipe", ["hybrid", "composite", "rrf"])
def test_a_lookup_keeps_the_order_that_was_asked_for(recipe: str) -> None:
    """Whatever the recipe does with a search, a lookup's documents stay in their order, with their score 0."""
    asked = rank(found(text=None, subject="s", recipe=recipe, debug=True))
    assert order(asked) == ["a", "b", "c"]
    assert {each.score for each in asked.outcome.candidates} == {0.0}
    assert "rank" not in [step.name for step in asked.steps]


def test_a_recipe_without_a_model_was_ranked_when_it_was_fused() -> None:
    """A model's word has no part in it."""
    assert order(rank(found(recipe="vector"))) == ["a", "b", "c"]


def test_the_model_reads_chunks_and_groups_count_behind_it() -> None:
    """Each chunk has the model's score; then the best of each group stands for it, and the explanation says so."""
    asked = found(recipe="hybrid", group_by="parent", group_size=2, group_score="sum", explain=True)
    parents = {"a": "p", "b": "q", "c": "p"}
    for each in asked.outcome.candidates:
        each.payload = {**each.payload, "parent": parents[each.id]}
    assert asked.asked.reranks == 50
    rank(asked)
    outcome = asked.outcome
    assert order(asked) == ["b", "a"]
    group = outcome.results.groups["a"]
    assert (group.key, [each.id for each in group.candidates]) == ("p", ["a", "c"])
    [of_a] = [each for each in outcome.candidates if each.id == "a"]
    assert of_a.score == sum(each.score for each in group.candidates)
    [step] = outcome.results.explain("a", [])
    assert (step["stage"], step["input"], step["output"]) == ("group", group.candidates[0].score, of_a.score)
    assert step["values"] == {"key": "p", "count": 2, "scores": [each.score for each in group.candidates]}


def test_a_group_that_was_given_is_told_by_any_of_its_documents() -> None:
    """After a write another document may be the best of it: it is the same group all the same."""
    asked = found(recipe="vector", group_by="parent")
    for each in asked.outcome.candidates:
        each.payload = {**each.payload, "parent": {"a": "p", "b": "q", "c": "q"}[each.id]}
    rank(asked)
    assert order(asked) == ["a", "b"]
    assert give(asked, "c") == 1
    assert order(asked) == ["b", "a"]


@given(
    scores=st.lists(st.sampled_from([0.9, 0.5, 0.1]), min_size=1, max_size=8),
    draw=st.randoms(use_true_random=False),
    score=st.sampled_from(["max", "sum", "avg"]),
    direction=st.sampled_from(["asc", "desc", None]),
)
def test_what_is_gone_has_no_part_in_groups(
    scores: list[float], draw: random.Random, score: Any, direction: Any
) -> None:
    """The groups, their scores and their order are those that they would have if what is gone had never been there."""
    ranked = [
        Candidate(f"d{place}", each, {"parent": draw.choice(["p", "q", None]), "size": draw.choice([1, 2, None])})
        for place, each in enumerate(sorted(scores, reverse=True))
    ]
    gone = {each.id for each in ranked if draw.random() < 0.4}
    order_by = OrderBy(field="size", direction=direction) if direction is not None else None

    found = Results(ranked, Grouping("parent", 2, score), order_by, gone=gone)
    expected = replace(found, ranked=[each for each in ranked if each.id not in gone], gone=frozenset())
    assert (found.candidates, found.groups) == (expected.candidates, expected.groups)


@pytest.mark.parametrize("score", ["sum", "avg"])
def test_a_group_that_loses_its_best_document_is_scored_by_the_others(score: str) -> None:
    """The next document stands for the group, with the group's score and not with its own alone."""
    asked = found(recipe="vector", group_by="parent", group_score=score, explain=True)
    for each in asked.outcome.candidates:
        each.payload = {**each.payload, "parent": "p"}
    rank(asked)
    lose(asked, "a")
    [left] = asked.outcome.candidates
    own = [each.score for each in asked.outcome.results.groups["b"].candidates]
    assert (left.id, left.score) == ("b", sum(own) if score == "sum" else sum(own) / 2)
    [step] = asked.outcome.results.explain("b", [])
    assert (step["output"], step["values"]["count"]) == (left.score, 2)
    lose(asked, "c")
    [step] = asked.outcome.results.explain("b", [])
    assert (step["output"], step["values"]["count"]) == (own[0], 1)


def grouped(parents: dict[str, str], **event: Any) -> InFlight:
    """A ranked query by vector: a (.9), b (.8) and c (.1), grouped by these parents."""
    asked = found(recipe="vector", group_by="parent", **event)
    for each in asked.outcome.candidates:
        each.payload = {**each.payload, "parent": parents[each.id]}
    return rank(asked)


def test_a_group_that_loses_its_best_document_goes_where_its_next_one_belongs() -> None:
    """The group of a and c was first by a. By c alone it is the last: results stay in the order of their scores."""
    asked = grouped({"a": "p", "b": "q", "c": "p"})
    assert order(asked) == ["a", "b"]
    lose(asked, "a")
    assert order(asked) == ["b", "c"]
    assert asked.outcome.results.groups["c"].key == "p"


def test_a_group_that_was_given_stays_before_the_page() -> None:
    """A page that continues leaves it out where its best document is gone, too, and no other in its place."""
    asked = grouped({"a": "p", "b": "q", "c": "p"})
    assert give(asked, "a") == 1
    lose(asked, "a")
    assert order(asked) == ["c", "b"]


def test_an_order_holds_where_a_group_loses_its_best_document() -> None:
    """Ordered by age, the group of a (90 days) and c (today) is older than b by a, and younger by c."""
    by_age = {"field": "created_at", "direction": "asc"}
    asked = grouped({"a": "p", "b": "q", "c": "p"}, order_by=by_age)
    assert order(asked) == ["a", "b"]
    lose(asked, "a")
    assert order(asked) == ["b", "c"]


def test_an_order_holds_on_a_page_that_continues() -> None:
    """Given groups stay before the others, however these are ordered."""
    by_age = {"field": "created_at", "direction": "asc"}
    asked = grouped({"a": "p", "b": "q", "c": "p"}, order_by=by_age)
    assert give(asked, "a") == 1
    lose(asked, "a")
    assert order(asked) == ["c", "b"]
