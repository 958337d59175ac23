"""Chat models: a system text and a user text in, one completion's text out."""

from typing import NamedTuple, Protocol


class Completion(NamedTuple):
    """What a model said; `cut`: the limit of tokens ended it, not the model."""

    text: str
    cut: bool = False


class ChatModel(Protocol):
    """What rankstream asks of a chat model."""

    @property
    def model(self) -> str:
        """The model's name, as provenance reports it."""
        ...

    async def complete(self, system: str, user: str, *, timeout: float) -> Completion:
        """Return one completion within `timeout` seconds; raises BackendError."""
        ...

    async def aclose(self) -> None:
        """Release connections."""
        ...
