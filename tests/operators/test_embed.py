"""Embed: which queries' texts become vectors, and what a lost one leaves."""

from typing import Any

import numpy as np
import pytest

from operators.clients.embedders import Embedding
from operators.dispatcher import Finished
from operators.embed import embedded, plan, unembedded
from operators.inflight import InFlight
from operators.recipes import Planner
from schemas.errors import BackendError, BackendTimeout, Reason
from schemas.recipes import SHIPPED, Recipe
from schemas.settings.ranking import PROFILES
from tests.operators.samples import DIMENSION, TRACER, decoder, message

PICKING = Recipe.parse("picking", {"stages": ["keyword", {"llm_rerank": {"enabled": True}}]})
DECODER = decoder(TRACER, planner=Planner(PROFILES, {**SHIPPED, "picking": PICKING}))


def query(**event: Any) -> InFlight:
    """A query in flight."""
    return DECODER(message({"query_id": "q", "text": "some text", **event}))


NEVER: list[dict[str, Any]] = [
    {"text": None, "vector": [1.0, 0.0, 0.0]},
    {"vector": [1.0, 0.0, 0.0]},
    {"vector": [0.0, 0.0, 0.0]},
    {"profile": "fast"},
    {"profile": "fast", "reflections_only": True},
    {"recipe": "keyword", "rerank": False},
    {"recipe": "picking"},
]
BY_TOKENS: list[dict[str, Any]] = [{"recipe": "keyword"}, {"recipe": "keyword", "profile": "deep"}]
ALWAYS: list[dict[str, Any]] = [
    {},
    {"recipe": "vector"},
    {"recipe": "signals", "rerank": False},
    {"recipe": "keyword", "reflections_only": True},
]


@pytest.mark.parametrize(
    ("asked", "tokens", "wanted"),
    [
        *((asked, tokens, False) for asked in NEVER for tokens in (False, True)),
        *((asked, tokens, tokens) for asked in BY_TOKENS for tokens in (False, True)),
        *((asked, tokens, True) for asked in ALWAYS for tokens in (False, True)),
    ],
)
def test_a_text_is_embedded_for_who_reads_the_vector(asked: dict[str, Any], tokens: bool, wanted: bool) -> None:
    """The vector leg, reflections and a reranker of tokens read it; a chat model's pick, a profile without and a vector
    of the query's own need none. What isn't wanted is no loss where nobody embeds.
    """
    assert plan(tokens)(query(**asked)) == ({"embed": "some text"} if wanted else {})
    lost = [("embed", Reason.NO_EMBEDDER)] if wanted else []
    assert unembedded(query(**asked), tokens).degraded == lost


def test_a_vector_is_taken_over() -> None:
    """The embedding of the collection's dimension is the query's."""
    vector = Embedding(np.ones(DIMENSION, np.float32))
    asked = embedded(Finished(query(), {"embed": vector}), DIMENSION, "model")
    assert (asked.embedding, asked.degraded) == (vector, [])


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (BackendTimeout("late"), Reason.TIMEOUT),
        (Embedding(np.ones(DIMENSION + 1, np.float32)), Reason.BAD_RESPONSE),
    ],
)
def test_a_lost_vector_is_noted(outcome: Embedding | BackendError, reason: Reason) -> None:
    """A failure, and a vector that the collection can't be searched by, are losses with their reasons."""
    asked = embedded(Finished(query(), {"embed": outcome}), DIMENSION, "model")
    assert (asked.embedding, asked.degraded) == (None, [("embed", reason)])
