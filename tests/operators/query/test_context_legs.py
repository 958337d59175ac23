"""The context legs: which queries ask them, of which collections, and what they are asked for."""

from typing import Any

import numpy as np
import pytest

from operators.query.backend_answers import Embedding
from operators.query.in_flight import InFlight
from operators.ranking.candidate import Leg
from operators.ranking.fusion import score
from operators.ranking.run import Facts, Run
from operators.text.expression import parse
from operators.text.terms import SparseVector
from schemas.recipes.fusion import Dbsf, Rrf, Score
from schemas.result import LegStatus
from tests.operators import samples

SEARCHES = samples.searches()


def query(**event: Any) -> InFlight:
    """A query with a vector and terms."""
    asked = samples.query(**event)
    asked.retrieval.embedding = Embedding(np.ones(samples.DIMENSION, np.float32))
    asked.retrieval.terms = SparseVector([7], [1.0])
    return asked


def asked_of(asked: InFlight) -> dict[str, Any]:
    """The body of each leg's search."""
    return {leg: samples.body(search) for leg, search in SEARCHES.write(asked).items()}


ABLE = samples.capable(dense_context=True, sparse_context=True)


def test_context_legs_search_their_own_vectors() -> None:
    """Under the query's filter and its namespace's frequencies, as the legs beside them."""
    asked = query(recipe="conversation")
    asked.retrieval.capabilities = ABLE
    bodies = asked_of(asked)
    assert set(bodies) == {"vector", "keyword", "keyword_context", "vector_context"}
    assert bodies["keyword_context"] == {**bodies["keyword"], "using": "bm25_context"}
    assert bodies["vector_context"] == {**bodies["vector"], "using": "dense_context"}


@pytest.mark.parametrize(
    ("able", "legs"),
    [
        ({"dense_context": True}, {"vector", "keyword", "vector_context"}),
        ({"sparse_context": True}, {"vector", "keyword", "keyword_context"}),
        ({}, {"vector", "keyword"}),
    ],
)
def test_a_collection_is_asked_for_the_context_that_it_has(able: dict[str, Any], legs: set[str]) -> None:
    """A leg without its vectors is not asked."""
    asked = query(recipe="conversation")
    asked.retrieval.capabilities = samples.capable(**able)
    assert asked_of(asked).keys() == legs


def test_only_a_recipe_that_weighs_contexts_asks_for_them() -> None:
    """The other recipes ask the same legs as before, whatever the collection has."""
    asked = query(recipe="hybrid")
    asked.retrieval.capabilities = ABLE
    assert asked_of(asked).keys() == {"vector", "keyword"}


def test_an_expression_restricts_the_context_leg_by_the_document_itself() -> None:
    """Both keyword legs search within the same documents."""
    asked = query(recipe="conversation", text='"some text"')
    asked.retrieval.capabilities = ABLE
    asked.retrieval.parsed = parse('"some text"', {})
    found = asked_of(asked)
    assert found["keyword_context"]["filter"] == found["keyword"]["filter"] != found["vector"]["filter"]


@pytest.mark.parametrize("fusion", [Score, Rrf, Dbsf])
def test_a_fusion_asks_the_context_legs_that_it_weighs(fusion: type[Score | Rrf | Dbsf]) -> None:
    """A weight of 0, and none, is no request."""
    weights = {"vector": 0.2, "keyword_context": 0.3, "vector_context": 0.0}
    assert fusion(weights=weights).legs == ("vector", "keyword", "keyword_context")
    assert fusion().legs == ("vector", "keyword")


def test_a_context_leg_without_a_weight_adds_nothing() -> None:
    """As of a pool that was recorded for another recipe."""
    legs = [Leg(name, LegStatus.OK, ["a", name], [2.0, 1.0], [{}, {}]) for name in ("vector", "keyword_context")]
    scores = {each.id: each.score for each in score(legs, Score(), Run(Facts()))}
    assert scores == {"a": 0.5, "vector": 0.0, "keyword_context": 0.0}


def test_a_context_leg_counts_by_its_weight() -> None:
    """Its scores are normalised as those of every leg."""
    legs = [Leg("keyword_context", LegStatus.OK, ["a", "b", "c"], [3.0, 2.0, 1.0], [{}, {}, {}])]
    weighed = score(legs, Score(weights={"keyword_context": 0.4}), Run(Facts()))
    assert {each.id: each.score for each in weighed} == pytest.approx({"a": 0.4, "b": 0.2, "c": 0.0})
