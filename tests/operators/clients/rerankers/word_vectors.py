"""An embedder of numbers in words' place, and queries about such documents."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import numpy as np
from hypothesis import strategies as st

from operators.clients.embedders import Purpose
from operators.clients.qdrant.client import QdrantClient
from operators.clients.rerankers import RerankRequest
from operators.clients.rerankers.late_interaction import LateInteraction
from operators.query.backend_answers import Embedding
from schemas.errors import BackendTimeout, BackendUnavailable
from tests.operators.clients.qdrant.transports import qdrant
from tests.operators.clients.rerankers.token_index import DIMENSION, request, unit_rows

VOCABULARY = unit_rows(40)
WORDS = st.lists(st.integers(0, len(VOCABULARY) - 1), max_size=6)


class WordVectors:
    """An embedder of numbers in words' place, a token each; it notes its texts, and waits before those in `held`."""

    model = "words"

    def __init__(self, *, tokens: bool = True) -> None:
        self.texts: list[str] = []
        self.held: Mapping[str, asyncio.Event] = {}
        self.failing: set[str] = set()
        self._tokens = tokens

    async def embed(self, texts: Sequence[str], *, purpose: Purpose, timeout: float) -> list[Embedding]:
        """Embed texts; BackendUnavailable if one of them is failing."""
        try:
            async with asyncio.timeout(timeout):
                for text in texts:
                    if text in self.held:
                        await self.held[text].wait()
        except TimeoutError:
            raise BackendTimeout("embedder: no answer in time") from None
        if self.failing.intersection(texts):
            raise BackendUnavailable("embedder: status 503")
        self.texts += texts
        return [embedding(text) if self._tokens else Embedding(embedding(text).vector) for text in texts]

    async def aclose(self) -> None:
        """Release nothing."""


def embedding(text: str) -> Embedding:
    """The vectors of WordVectors for a text."""
    token_ids = tuple(map(int, text.split()))
    return Embedding(np.zeros(DIMENSION, np.float32), VOCABULARY[list(token_ids)], token_ids)


def asked(text: str, documents: Mapping[str, str]) -> RerankRequest:
    """A query about documents."""
    made = embedding(text)
    return request(made.tokens, documents, made.token_ids)


def scored(reranker: LateInteraction, *requests: RerankRequest, timeout: float = 30) -> list[Any]:
    """The outcomes of one call."""
    return asyncio.run(reranker.score(requests, timeout=timeout))


def refusing() -> QdrantClient:
    """Qdrant where nothing may be searched."""

    def fail(_: httpx.Request) -> httpx.Response:
        raise AssertionError("a collection without token vectors was searched, or asked for them")

    return qdrant(httpx.MockTransport(fail))
