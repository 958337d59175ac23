"""The OpenAI-compatible embedder: `POST {base}/embeddings`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from operators.clients.batches import in_batches
from operators.clients.embedders import Embedding
from operators.clients.embedders.vectors import unit_embeddings
from operators.clients.indexed import indexed
from operators.clients.transport import Endpoint
from schemas.errors import BackendBadResponse


@dataclass(frozen=True, slots=True)
class OpenAIEmbedder:
    """An Embedder over the API that OpenAI, vLLM, infinity and llama-server share.

    Texts above `max_batch` go out as several requests at once; `dimension` is what every vector must have, if given.
    """

    endpoint: Endpoint
    model: str
    dimension: int | None = None
    max_batch: int = 256

    async def embed(self, texts: Sequence[str], *, timeout: float) -> list[Embedding]:
        """Embed `texts` in their order within `timeout` seconds; raises BackendError."""

        async def request(batch: Sequence[str]) -> list[Any]:
            body = {"model": self.model, "input": batch, "encoding_format": "float"}
            answer = await self.endpoint.call("POST", "/embeddings", body, timeout=timeout)
            return self._rows(answer, len(batch))

        answers = await in_batches(texts, self.max_batch, request)
        rows = [row for answer in answers for row in answer]
        return unit_embeddings(rows, self.dimension, backend=self.endpoint.name)

    async def aclose(self) -> None:
        """Close the endpoint."""
        await self.endpoint.aclose()

    def _rows(self, answer: object, count: int) -> list[Any]:
        entries = answer.get("data") if isinstance(answer, dict) else None
        vectors = indexed(entries, "embedding", count, backend=self.endpoint.name)
        if len(vectors) != count:
            raise BackendBadResponse(f"{self.endpoint.name}: {len(vectors)} vectors for {count} texts")
        return [vectors[index] for index in range(count)]
