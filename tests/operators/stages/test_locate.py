"""Hints for passages: texts without a word of the query are read by the model, and no others."""

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.clients.local.minilm import MiniLM
from operators.query.backend_answers import Embedding
from operators.query.in_flight import InFlight
from operators.query.outcome import Results
from operators.query.returned import share_of
from operators.ranking.candidate import Candidate
from operators.runtime.dispatcher import Bounds
from operators.stages.locate import MOST, NEAR, Locating, find_hints
from operators.text.passages import Hint
from schemas.errors import BackendUnavailable
from tests.operators.samples import query
from tests.operators.stages.matching import matching

BOUNDS = Bounds(1, 1, 1)
AXES = np.eye(4, dtype=np.float32)


class Words:
    """A model in which each word is a token; `wheels` is near to `bicycle`, and `hire` to `rent`."""

    model = "words"
    NEARBY: ClassVar = {"bicycle": 0, "wheels": 0, "hire": 1, "rent": 1}

    def __init__(self) -> None:
        self.read: list[Sequence[str]] = []

    async def embed(self, texts: Sequence[str], *, purpose: str, timeout: float) -> list[Embedding]:
        """A vector a word."""
        self.read.append(texts)
        return [self.embedding(text) for text in texts]

    def embedding(self, text: str) -> Embedding:
        """The embedding of one text."""
        rows = [AXES[self.NEARBY.get(word.strip("."), 3)] for word in text.split()]
        return Embedding(AXES[0], np.array(rows, np.float32), tuple(range(len(rows))))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The span of each word."""
        found, start = [], 0
        for word in text.split():
            start = text.index(word, start)
            found.append((start, start + len(word)))
            start += len(word)
        return found

    async def aclose(self) -> None:
        """Nothing."""


def locating(model: Words) -> Locating:
    """The stage with this model."""
    return Locating(cast("MiniLM", model), BOUNDS)


def found(model: Words, *texts: str, **event: Any) -> InFlight:
    """A query with these texts as results."""
    asked = query(text="bicycle hire", **{"return": {"passages": 1}, "limit": 50, **event})
    asked.retrieval.matcher = matching("bicycle hire")
    asked.retrieval.embedding = model.embedding("bicycle hire")
    ids = [f"d{number}" for number in range(len(texts))]
    asked.outcome.results = Results([Candidate(id_, 0.5, {}) for id_ in ids])
    asked.outcome.payloads = {id_: {"text": text} for id_, text in zip(ids, texts, strict=True)}
    return asked


def test_only_texts_without_the_words_are_read() -> None:
    """The hints are the nearest words; a text that has a word of the query is not read."""
    model = Words()
    stage = locating(model)
    asked = found(model, "We open at nine. You rent wheels here.", "A bicycle.", "Nothing of it.")
    request = stage.ask(asked)
    assert request is not None
    [answer] = asyncio.run(stage.call(request[0], [request[1]], 1.0))
    stage.on_result(asked, answer)
    assert model.read == [["We open at nine. You rent wheels here.", "Nothing of it."]]
    assert asked.outcome.hints["d0"] == [Hint(21, 25, 1.0), Hint(26, 32, 1.0)]
    assert "d1" not in asked.outcome.hints
    assert asked.outcome.hints["d2"] == []


@pytest.mark.parametrize("event", [{"return": {"text": "full"}}, {"return": {"neighbours": 1}}])
def test_who_asks_for_no_passage_costs_nothing(event: dict[str, Any]) -> None:
    """Without passages nothing is read."""
    model = Words()
    assert not locating(model).request(found(model, "You rent wheels here.", **event))


def test_a_page_has_bounds() -> None:
    """At most so many texts are read, however long the page is; many queries' texts are one call."""
    model = Words()
    stage = locating(model)
    long = found(model, *(f"text {number}" for number in range(MOST + 5)))
    short = found(model, "text 0", "another")
    requests = [request[1] for each in (long, short) if (request := stage.ask(each)) is not None]
    assert [len(each) for each in requests] == [MOST, 2]
    asyncio.run(stage.call("locate", requests, 1.0))
    assert [len(texts) for texts in model.read] == [MOST + 1]


def test_a_page_is_searched_for_words_as_far_as_for_passages() -> None:
    """Of a text that is longer than its share the part with a word is looked at: it is not read by the model."""
    stage, words = locating(Words()), " bicycle"
    filled = "x " * (share_of(1) // 2)
    assert stage.request(found(Words(), filled + filled))
    assert not stage.request(found(Words(), filled + words))
    assert not stage.request(found(Words(), filled[: -len(words)] + words))


def test_a_model_that_is_away_costs_no_more_than_the_passage() -> None:
    """The result is whole: its passage is the beginning of the text."""
    model = Words()
    asked = found(model, "You rent wheels here.")
    locating(model).on_result(asked, BackendUnavailable("embedder: stopped"))
    assert asked.outcome.hints == {}
    assert asked.outcome.degraded == []


@given(st.integers(0, 2**32 - 1), st.integers(0, 6), st.integers(0, 9))
def test_hints_are_the_nearest_tokens(seed: int, asked: int, tokens: int) -> None:
    """Each is the nearest of some token of the query, no token is named twice, and all weights sum to the scores."""
    chance = np.random.default_rng(seed)
    rows = [chance.standard_normal((count, 3)).astype(np.float32) for count in (asked, tokens)]
    query_, text = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in rows)
    spans = [(number, number + 1) for number in range(tokens)]
    hints = find_hints(query_, text, spans)
    best = (query_ @ text.T).max(axis=1) if asked and tokens else np.array([])
    assert sum(hint.weight for hint in hints) == pytest.approx(best[best >= NEAR].sum(), abs=1e-5)
    assert len({hint.start for hint in hints}) == len(hints)
