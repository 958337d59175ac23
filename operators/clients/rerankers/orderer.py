"""The chat model that puts a query's candidates in order; see `numbered` for what a text can't do to it.

A model that obeys a planted text can order the query's own documents otherwise, or leave out some or all of them: what
it leaves out is judged irrelevant, and `none` is an answer.
"""

from collections.abc import Sequence
from typing import Final

from operators.clients.chat import ChatModel
from operators.clients.rerankers import RerankRequest
from operators.clients.rerankers.numbered import CAPACITY, READING, named
from operators.query.backend_answers import Scores

SYSTEM: Final = f"""\
You put documents in the order in which they answer a search query, the best first.
{READING}
Answer with the numbers of the relevant documents alone, the best first, such as 3, 1, 2, without those that are not \
relevant, or with the word none if no document is relevant."""


class Orderer:
    """A Reranker that asks a chat model for the order: of n documents the one named at i, from 0, scores 1 - i/n."""

    reads: Final = "text"
    capacity: Final = CAPACITY

    def __init__(self, chat: ChatModel) -> None:
        self.model = chat.model
        self._chat = chat

    async def score(self, requests: Sequence[RerankRequest], *, timeout: float) -> list[Scores]:
        """Order the one request's documents by one completion within `timeout` seconds; {}: none is relevant.

        A document that the answer doesn't name has no score. Raises BackendError.
        """
        (request,) = requests
        order = await named(self._chat, SYSTEM, request, whole=True, timeout=timeout)
        count = len(request.documents)
        return [{point: 1 - place / count for place, point in enumerate(order)}]

    async def aclose(self) -> None:
        """Close the chat model."""
        await self._chat.aclose()
