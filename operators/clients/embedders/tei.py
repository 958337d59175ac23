"""The embedder of text-embeddings-inference: `POST {base}/embed`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from operators.clients.batches import in_batches
from operators.clients.embedders import Embedding
from operators.clients.embedders.vectors import unit_embeddings
from operators.clients.transport import Endpoint
from schemas.errors import BackendBadResponse


@dataclass(frozen=True, slots=True)
class TeiEmbedder:
    """An Embedder over TEI's own API; a text longer than the model's context is truncated by the server.

    Texts above `max_batch`, the server's `max-client-batch-size`, go out as several requests at once; `dimension` is
    what every vector must have, if given.
    """

    endpoint: Endpoint
    model: str
    dimension: int | None = None
    max_batch: int = 32

    async def embed(self, texts: Sequence[str], *, timeout: float) -> list[Embedding]:
        """Embed `texts` in their order within `timeout` seconds; raises BackendError."""

        async def request(batch: Sequence[str]) -> list[Any]:
            body = {"inputs": batch, "truncate": True}
            answer = await self.endpoint.call("POST", "/embed", body, timeout=timeout)
            if not isinstance(answer, list) or len(answer) != len(batch):
                raise BackendBadResponse(f"{self.endpoint.name}: not a vector a text")
            return answer

        answers = await in_batches(texts, self.max_batch, request)
        rows = [row for answer in answers for row in answer]
        return unit_embeddings(rows, self.dimension, backend=self.endpoint.name)

    async def aclose(self) -> None:
        """Close the endpoint."""
        await self.endpoint.aclose()
