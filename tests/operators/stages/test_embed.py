"""Embed: which queries' texts become vectors, and what a lost one leaves."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from operators.clients.embedders import Purpose
from operators.clients.http.dialect import by_status
from operators.clients.model_caches import EmbeddingCache
from operators.query.backend_answers import Embedding
from operators.query.in_flight import InFlight
from operators.query.plan import Planner
from operators.query.search_bodies import vector_of
from operators.runtime.dispatcher import Bounds
from operators.stages.embed import Embeddings, Encodings, needs_embedding
from operators.text.terms import SparseVector
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, Reason
from schemas.recipes import SHIPPED, Recipe
from schemas.settings.ranking import PROFILES
from tests.operators.samples import DIMENSION, admission, capable, decoder, message

PICKING = Recipe.parse("picking", {"stages": ["keyword", {"llm_rerank": {"enabled": True}}]})
RERANKED = Recipe.parse("reranked", {"stages": ["keyword", "rerank"]})
LEARNED = Recipe.parse("learned", {"stages": [{"rrf": {"weights": {"learned": 1.0}}}]})
ASKED = ("public", "some text")
OWN_RECIPES = {"picking": PICKING, "reranked": RERANKED, "learned": LEARNED}
DECODER = decoder(planner=Planner(PROFILES, {**SHIPPED, **OWN_RECIPES}))


def query(**event: Any) -> InFlight:
    """A query in flight."""
    return DECODER(message({"query_id": "q", "text": "some text", **event}))


class Counting:
    """An embedder that keeps what it was asked, and gives each text a vector of its own."""

    model = "counting"

    def __init__(self, dimension: int = DIMENSION) -> None:
        self.asked: list[list[str]] = []
        self.purposes: list[Purpose] = []
        self._dimension = dimension

    async def embed(self, texts: Sequence[str], *, purpose: Purpose, timeout: float) -> list[Embedding]:
        """A vector that begins with the text's length."""
        self.asked.append(list(texts))
        self.purposes.append(purpose)
        return [Embedding(np.full(self._dimension, len(text), np.float32)) for text in texts]

    async def aclose(self) -> None:
        """Nothing to release."""


def by(
    embedder: Counting | None = None, *, tokens: bool = False, kept: EmbeddingCache[Embedding] | None = None
) -> Embeddings:
    """The stage, with this embedder."""
    return Embeddings(embedder or Counting(), Bounds(10, 8, 8), kept, dimension=DIMENSION, tokens=tokens)


NEVER: list[dict[str, Any]] = [
    {"text": None, "vector": [1.0, 0.0, 0.0]},
    {"vector": [1.0, 0.0, 0.0]},
    {"vector": [0.0, 0.0, 0.0]},
    {"profile": "fast"},
    {"profile": "fast", "reflections_only": True},
    {"recipe": "keyword"},
    {"recipe": "reranked", "rerank": False},
    {"recipe": "picking"},
]
BY_TOKENS: list[dict[str, Any]] = [{"recipe": "reranked"}, {"recipe": "reranked", "profile": "deep"}]
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
    assert by(tokens=tokens).ask(query(**asked)) == (("embed", ASKED) if wanted else None)
    unembedded = admission(unembedded=partial(needs_embedding, tokens=tokens), clock=lambda: 0.0)
    lost = [("embed", Reason.NO_EMBEDDER)] if wanted else []
    assert unembedded(query(**asked)).outcome.degraded == lost


def test_a_vector_is_taken_over() -> None:
    """The embedding of the collection's dimension is the query's."""
    vector = Embedding(np.ones(DIMENSION, np.float32))
    asked = by().on_result(query(), vector)
    assert (asked.retrieval.embedding, asked.outcome.degraded) == (vector, [])


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (BackendTimeout("late"), Reason.TIMEOUT),
        (asyncio.run(by(Counting(DIMENSION + 1)).call("embed", [("public", "text")], 1.0))[0], Reason.BAD_RESPONSE),
    ],
)
def test_a_lost_vector_is_noted(outcome: Embedding | BackendError, reason: Reason) -> None:
    """A failure, and a vector that the collection can't be searched by, are losses with their reasons."""
    asked = by().on_result(query(), outcome)
    assert (asked.retrieval.embedding, asked.outcome.degraded) == (None, [("embed", reason)])


@pytest.mark.parametrize(("unknown", "warned"), [(0.0, False), (0.24, False), (0.25, True), (1.0, True)])
@pytest.mark.parametrize("cached", [False, True])
def test_a_script_that_the_model_does_not_know_is_warned_of(unknown: float, warned: bool, cached: bool) -> None:
    """Cached or not, the text has no direction then, is not reranked by its tokens, and nothing counts as lost."""
    embedding = Embedding(np.ones(DIMENSION, np.float32), unknown=unknown)
    asked = query()
    if cached:
        kept: EmbeddingCache[Embedding] = EmbeddingCache(1 << 20)
        kept.put(ASKED, embedding)
        stage = by(kept=kept)
        assert stage.ask(asked) is None
        stage.on_unasked(asked)
    else:
        by().on_result(asked, embedding)
    assert [warning.startswith("unknown_script: ") for warning in asked.outcome.warnings] == [True] * warned
    assert (vector_of(asked) is None) == warned
    assert asked.outcome.degraded == []


def test_unknown_signs_among_known_words_are_warned_of() -> None:
    """The text keeps its direction: the model knows its words."""
    asked = by().on_result(query(), Embedding(np.ones(DIMENSION, np.float32), unknown=0.1, unknown_signs=True))
    (warning,) = asked.outcome.warnings
    assert warning.startswith("unknown_script: ")
    assert vector_of(asked) is not None


def called(embeddings: Embeddings, *texts: str) -> list[Embedding]:
    """One call of the stage, without a failure."""
    found = asyncio.run(embeddings.call("embed", [("public", text) for text in texts], 1.0))
    return [each for each in found if isinstance(each, Embedding)]


def test_a_text_that_results_are_to_be_like_is_embedded_as_a_document() -> None:
    """In a call apart from those for queries, for which its vector is not kept."""
    embedder = Counting()
    embeddings = by(embedder, kept=EmbeddingCache(10**6))
    questions = [query(text="a lamp"), query(text=None, like={"text": "a lamp"})]
    for each in [*questions, *questions]:
        asks = embeddings.ask(each)
        if asks is not None:
            asyncio.run(embeddings.call(asks[0], [asks[1]], 1.0))
    assert embedder.purposes == ["query", "document", "document"]
    assert embeddings.ask(query(text=None, like={"ids": ["a"]})) is None


def test_a_text_is_embedded_once() -> None:
    """Equal texts of a call are asked for once, and later ones not at all; each query has its own text's vector."""
    embedder = Counting()
    embeddings = by(embedder, kept=EmbeddingCache(10**6))
    vectors = [each.vector[0] for each in called(embeddings, "some text", "other", "some text")]
    assert vectors == [9.0, 5.0, 9.0]
    assert embedder.asked == [["some text", "other"]]
    again = query()
    assert embeddings.ask(again) is None
    assert again.retrieval.embedding is not None
    assert again.retrieval.embedding.vector[0] == 9.0
    assert embeddings.on_unasked(again).outcome.degraded == []


def test_what_another_namespace_asked_is_not_known() -> None:
    """A text is asked for again by the first query of each namespace: its time tells nothing of the others."""
    embeddings = by(kept=EmbeddingCache(10**6))
    called(embeddings, "some text")
    assert embeddings.ask(query(namespace="acme")) == ("embed", ("acme", "some text"))
    assert embeddings.ask(query(namespace="public")) is None


@pytest.mark.parametrize("cached", [False, True])
def test_embed_is_a_step_whether_or_not_the_text_was_cached(cached: bool) -> None:
    """A query that needed no embedding has no such step; one that did has it, wherever it came from."""
    embeddings = by(kept=EmbeddingCache(10**6))
    asked = query(debug=True)
    found = called(embeddings, "some text")[0] if cached else Embedding(np.ones(DIMENSION, np.float32))
    assert (embeddings.ask(asked) is None) == cached
    done = embeddings.on_unasked(asked) if cached else embeddings.on_result(asked, found)
    assert [step.name for step in done.steps] == ["embed"]
    without = query(debug=True, profile="fast")
    assert embeddings.ask(without) is None
    assert embeddings.on_unasked(without).steps == []


async def test_a_refused_text_loses_its_own_vector_alone() -> None:
    """The texts that shared its call are asked again without it; only theirs are kept."""

    class Refusing(Counting):
        async def embed(self, texts: Sequence[str], *, purpose: Purpose, timeout: float) -> list[Embedding]:
            if any(len(text) > 20 for text in texts):
                raise by_status("embedder", 413)
            return await super().embed(texts, purpose=purpose, timeout=timeout)

    embeddings = by(Refusing(), kept=EmbeddingCache(10**6))
    texts = [*"abcdefgh", "a text that is too long"]
    *found, refused = await embeddings.call("embed", [("public", text) for text in texts], 1.0)
    assert isinstance(refused, BackendBadResponse)
    assert all(isinstance(each, Embedding) and each.vector[0] == 1.0 for each in found)


def test_nothing_is_kept_without_room() -> None:
    """Without a place to keep them every query's text is asked for."""
    embeddings = by()
    called(embeddings, "some text")
    assert embeddings.ask(query()) == ("embed", ASKED)


def test_a_vector_of_another_dimension_is_not_kept() -> None:
    """It is a loss for the query that asked, and asked for again by the next."""
    embeddings = by(Counting(DIMENSION + 1), kept=EmbeddingCache(10**6))
    called(embeddings, "some text")
    assert embeddings.ask(query()) == ("embed", ASKED)


def test_what_is_kept_is_bounded_in_bytes() -> None:
    """Arrays and texts count; the longest unused leaves first, and one that is too large isn't kept at all."""
    kept: EmbeddingCache[Embedding] = EmbeddingCache(50_000)
    embedding = Embedding(np.zeros(384, np.float32), np.zeros((10, 384), np.float32), tuple(range(10)))
    for text in "abc":
        kept.put(("public", text), embedding)
        kept.get(("public", "a"))
    assert [kept.get(("public", text)) is not None for text in "abc"] == [True, False, True]
    kept.put(("public", "large"), Embedding(np.zeros(20_000, np.float32)))
    assert kept.get(("public", "large")) is None
    assert kept.get(("public", "a")) is embedding


class Spelling(Counting):
    """A sparse encoder that gives each text one term, its length."""

    async def embed(self, texts: Sequence[str], *, purpose: Purpose, timeout: float) -> Any:
        """A term for each text."""
        self.asked.append(list(texts))
        return [SparseVector([len(text)], [1.0]) for text in texts]


def encoding(encoder: Spelling | None = None) -> Encodings:
    """The stage, with this sparse encoder and a cache."""
    spelling: Any = encoder or Spelling()
    return Encodings(spelling, Bounds(10, 8, 8), EmbeddingCache(10**6))


def weighed(*, able: bool = True, **event: Any) -> InFlight:
    """A query whose recipe gives weight to the leg `learned`; `able`: its collection has the vector."""
    asked = query(**{"recipe": "learned", **event})
    asked.retrieval.capabilities = capable(learned=able)
    return asked


@pytest.mark.parametrize(
    ("event", "able", "wanted"),
    [
        ({}, True, True),
        ({"vector": [1.0, 0.0, 0.0]}, True, True),
        ({}, False, False),
        ({"recipe": "rrf"}, True, False),
        ({"recipe": "rrf", "overrides": {"rrf": {"weights": {"learned": 0.5}}}}, True, True),
        ({"profile": "fast"}, True, False),
        ({"reflections_only": True}, True, False),
        ({"text": None, "vector": [1.0, 0.0, 0.0]}, True, False),
        ({"text": "\u200b"}, True, False),
    ],
)
def test_a_text_is_encoded_for_the_leg_that_reads_it(event: dict[str, Any], able: bool, wanted: bool) -> None:
    """The recipe gives the leg weight, the collection has the vector, the profile asks models, and the text says
    something; a vector of the query's own replaces no terms.
    """
    asked = weighed(able=able, **event)
    assert encoding().wants(asked) is wanted
    assert (encoding().request(asked) is not None) is wanted


async def test_texts_are_encoded_once_in_a_namespace() -> None:
    """Equal texts of a call are asked for once, and cached ones not at all; another namespace's are no help."""
    encoder = Spelling()
    stage = encoding(encoder)
    found = await stage.call("encode", [("public", "some text"), ("public", "sea"), ("public", "some text")], 1.0)
    assert [each.indices for each in found if isinstance(each, SparseVector)] == [[9], [3], [9]]
    assert encoder.asked == [["some text", "sea"]]
    again = weighed(debug=True)
    assert stage.ask(again) is None
    assert again.retrieval.encoding == SparseVector([9], [1.0])
    assert [step.name for step in stage.on_unasked(again).steps] == ["encode"]
    assert stage.ask(weighed(namespace="acme")) == ("encode", ("acme", "some text"))


def test_a_lost_encoding_is_noted_as_such() -> None:
    """Under its own name: the embedding, and what is searched by it, are not lost."""
    asked = encoding().on_result(weighed(), BackendTimeout("late"))
    assert (asked.retrieval.encoding, asked.outcome.degraded) == (None, [("encode", Reason.TIMEOUT)])
