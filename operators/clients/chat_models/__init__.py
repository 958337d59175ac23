"""Chat models: a system text and a user text in, one completion's text out."""

from typing import Protocol


class ChatModel(Protocol):
    """What those who ask a chat model ask of it."""

    @property
    def model(self) -> str:
        """The model's name, as provenance reports it."""
        ...

    async def complete(self, system: str, user: str, *, timeout: float) -> str:
        """Return the text of one completion within `timeout` seconds; a text cut at the limit of tokens is one, too.

        Raises BackendError.
        """
        ...

    async def aclose(self) -> None:
        """Release connections."""
        ...
