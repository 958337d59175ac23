"""The chat model that picks one best document of a query's candidates; see `numbered` for what a text can't do to it.

A model that obeys a planted text can pick another of the query's own documents or none; `none` is an answer.
"""

from collections.abc import Sequence
from typing import Final

from operators.clients.chat import ChatModel
from operators.clients.rerankers import RerankRequest
from operators.clients.rerankers.numbered import CAPACITY, READING, named
from operators.query.backend_answers import Scores

SYSTEM: Final = f"""\
You pick the one document that answers a search query best.
{READING}
Answer with the number of the best document and nothing else, or with the word none if no document is relevant."""


class ChatSelector:
    """A Reranker that asks a chat model for the best: the picked document scores 1, no other has a score."""

    reads: Final = "text"
    capacity: Final = CAPACITY

    def __init__(self, chat: ChatModel) -> None:
        self.model = chat.model
        self._chat = chat

    async def score(self, requests: Sequence[RerankRequest], *, timeout: float) -> list[Scores]:
        """Pick one of the one request's documents, or none, {}, by one completion within `timeout` seconds.

        The first number that counts in the answer is the pick. Raises BackendError.
        """
        (request,) = requests
        best = await named(self._chat, SYSTEM, request, whole=False, timeout=timeout)
        return [dict.fromkeys(best[:1], 1.0)]

    async def aclose(self) -> None:
        """Close the chat model."""
        await self._chat.aclose()
