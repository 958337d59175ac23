"""The OpenAI-compatible embedder: `POST {base}/embeddings`."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from operators.clients.embedders.vectors import unit_embeddings
from operators.clients.http.backend import Backend
from operators.clients.http.batches import in_batches
from operators.clients.http.indexed import indexed
from operators.query.backend_answers import Embedding
from schemas.errors import BackendBadResponse


@dataclass(frozen=True, slots=True)
class OpenAIEmbedder:
    """An Embedder over the API that OpenAI, vLLM, infinity and llama-server share.

    Texts above `max_batch` go out as several requests at once; `dimension` is what every vector must have.
    """

    backend: Backend
    model: str
    dimension: int
    max_batch: int = 256

    async def embed(self, texts: Sequence[str], *, timeout: float) -> list[Embedding]:
        """Embed `texts` in their order within `timeout` seconds; raises BackendError."""

        async def request(batch: Sequence[str]) -> list[Embedding]:
            body = {"model": self.model, "input": batch, "encoding_format": "float"}
            return await self.backend.ask(
                "/embeddings", body, partial(self._read, len(batch)), timeout=timeout, repeatable=True
            )

        answers = await in_batches(texts, self.max_batch, request)
        return [embedding for answer in answers for embedding in answer]

    async def aclose(self) -> None:
        """Close the backend."""
        await self.backend.aclose()

    def _read(self, count: int, answer: object) -> list[Embedding]:
        entries = answer.get("data") if isinstance(answer, dict) else None
        vectors = indexed(entries, "embedding", count, backend=self.backend.name)
        if len(vectors) != count:
            raise BackendBadResponse(f"{self.backend.name}: {len(vectors)} vectors for {count} texts")
        rows = [vectors[index] for index in range(count)]
        return unit_embeddings(rows, self.dimension, backend=self.backend.name)
