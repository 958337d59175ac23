"""The embedder of text-embeddings-inference: `POST {base}/embed`."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from operators.clients.embedders.vectors import unit_embeddings
from operators.clients.http.backend import Backend
from operators.clients.http.batches import in_batches
from operators.query.backend_answers import Embedding
from schemas.errors import BackendBadResponse


@dataclass(frozen=True, slots=True)
class TeiEmbedder:
    """An Embedder over TEI's own API; a text longer than the model's context is truncated by the server.

    Texts above `max_batch`, the server's `max-client-batch-size`, go out as several requests at once; `dimension` is
    what every vector must have.
    """

    backend: Backend
    model: str
    dimension: int
    max_batch: int = 32

    async def embed(self, texts: Sequence[str], *, timeout: float) -> list[Embedding]:
        """Embed `texts` in their order within `timeout` seconds; raises BackendError."""

        async def request(batch: Sequence[str]) -> list[Embedding]:
            body = {"inputs": batch, "truncate": True}
            return await self.backend.ask(
                "/embed", body, partial(self._read, len(batch)), timeout=timeout, repeatable=True
            )

        answers = await in_batches(texts, self.max_batch, request)
        return [embedding for answer in answers for embedding in answer]

    async def aclose(self) -> None:
        """Close the backend."""
        await self.backend.aclose()

    def _read(self, count: int, answer: object) -> list[Embedding]:
        if not isinstance(answer, list) or len(answer) != count:
            raise BackendBadResponse(f"{self.backend.name}: not a vector a text")
        return unit_embeddings(answer, self.dimension, backend=self.backend.name)
