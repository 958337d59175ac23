"""Locate: the parts of a text that say what a query asks for, in texts that have none of the query's words.

A model may have found such a text by its sense. Late interaction tells by which of its tokens: for each token of the
query the nearest one of the text. So a passage is found there, in place of the text's beginning.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from operators.clients.local.minilm import MiniLM
from operators.query.backend_answers import Embedding
from operators.query.in_flight import InFlight
from operators.query.result import documents_of, page
from operators.query.returned import is_hidden, share_of, wants_words
from operators.runtime.dispatcher import BatchKey, Bounds
from operators.stages.backend_stage import BackendStage, model_attributes
from operators.text.passages import Hint
from operators.wire.message import Attributes
from schemas.document import TEXT
from schemas.errors import BackendError

MOST: Final = 10
"""Texts of a page that are read: each costs as much as to embed it."""

READ: Final = 4_000
"""Code points of a text that are read: the model reads no more tokens."""

NEAR: Final = 0.3
"""Least cosine of two tokens that say the same."""

Spans = Sequence[tuple[int, int]]
"""The beginning and the end of each token in a text, in code points."""


def find_hints(asked: NDArray[np.float32], tokens: NDArray[np.float32], spans: Spans) -> list[Hint]:
    """For each token of the query the nearest token of the text, where it is near; its weight is their cosine.

    `asked` and `tokens` have a unit vector a row. Source: late interaction (ColBERT, Khattab and Zaharia 2020).
    """
    if not len(asked) or not len(tokens):
        return []
    cosines = asked @ tokens.T
    nearest = cosines.argmax(axis=1)
    best: dict[int, float] = {}
    for token, cosine in zip(nearest.tolist(), cosines.max(axis=1).tolist(), strict=True):
        if cosine >= NEAR:
            best[token] = best.get(token, 0.0) + cosine
    return [Hint(*spans[token], weight) for token, weight in sorted(best.items())]


@dataclass(frozen=True)
class Locating(BackendStage[tuple[str, ...], Sequence[Embedding]]):
    """Embeds the texts of a page that have no word of the query, for queries whose results have passages.

    Where the model does not answer, a passage is the text's beginning, as with other embedders.
    """

    name: ClassVar = "locate"

    embedder: MiniLM
    bounds: Bounds

    def ask(self, query: InFlight) -> tuple[BatchKey, tuple[str, ...]] | None:
        texts = self._texts(query)
        return (self.name, tuple(texts.values())) if texts else None

    @override
    async def call(
        self, batch_key: BatchKey, requests: Sequence[tuple[str, ...]], timeout: float
    ) -> list[Sequence[Embedding] | BackendError]:
        texts = list(dict.fromkeys(text for wanted in requests for text in wanted))
        found = dict(zip(texts, await self.embedder.embed(texts, purpose="document", timeout=timeout), strict=True))
        return [[found[text] for text in wanted] for wanted in requests]

    @override
    def on_result(self, query: InFlight, outcome: Sequence[Embedding] | BackendError) -> InFlight:
        return query if isinstance(outcome, BackendError) else super().on_result(query, outcome)

    def on_answer(self, query: InFlight, answer: Sequence[Embedding]) -> None:
        asked = query.retrieval.embedding
        assert asked is not None
        assert asked.tokens is not None
        for (id_, text), embedding in zip(self._texts(query).items(), answer, strict=True):
            if embedding.tokens is not None:
                hints = find_hints(asked.tokens, embedding.tokens, self.embedder.spans(text))
                query.outcome.hints[id_] = hints

    @override
    def span(self, query: InFlight) -> tuple[str, Attributes]:
        return self.name, model_attributes("embeddings", self.embedder.model, "rankstream")

    def _texts(self, query: InFlight) -> Mapping[str, str]:
        """The texts that are read, by the point's id."""
        retrieval, plan = query.retrieval, query.asked.plan
        tokens = retrieval.embedding.tokens if retrieval.embedding is not None else None
        wanted = wants_words(plan.returned) and not is_hidden(TEXT, plan.hidden)
        if not wanted or tokens is None or retrieval.matcher is None:
            return {}
        matcher, outcome = retrieval.matcher(), query.outcome
        documents = documents_of(page(query.asked, outcome), outcome)
        share = share_of(len(documents))
        known = ((each.id, outcome.payloads.get(each.id, {}).get(TEXT)) for each in documents)
        texts = ((id_, text, matcher.part(text, share)) for id_, text in known if isinstance(text, str) and text)
        wordless = ((id_, text) for id_, text, start in texts if not matcher.matches(text[start : start + share]))
        return {id_: text[:READ] for id_, text in islice(wordless, MOST)}
