"""The findings of `rankstream check` about the embedder and the reranker: one real call to each."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from flows.assembly.clients import Clients, InProcess
from flows.assembly.suitability import mismatch
from flows.cli.findings import Finding
from operators.clients.rerankers import RerankRequest
from schemas.errors import BackendError, ConfigError, Reason
from schemas.settings import Settings

_TIMEOUT: Final = 10.0
_TEXT: Final = "a question"


def embedder(settings: Settings, in_process: InProcess) -> Iterator[Finding]:
    """Whether the embedder makes vectors of the length that the index has."""
    section = settings.embedder
    if section.kind == "none":
        yield Finding("ok", "embedder", "none is configured: queries and documents bring their vectors")
    else:
        yield _asked(settings, in_process, "embedder", f"{section.kind}, {section.model}", _embed)


def reranker(settings: Settings, in_process: InProcess) -> Iterator[Finding]:
    """Whether the reranker scores a text; late interaction depends on the collections, whose findings say so."""
    section = settings.rerank
    if section.kind in {"none", "late_interaction"}:
        yield Finding("ok", "reranker", f"{section.kind}: no server is needed")
    else:
        yield _asked(settings, in_process, "reranker", f"{section.kind} {section.model}".strip(), _score)


Work = Callable[[Settings, Clients], Awaitable[str | None]]
"""Makes the call, and returns what is wrong with its answer. Raises BackendError."""


def _asked(settings: Settings, in_process: InProcess, section: str, name: str, work: Work) -> Finding:
    async def ask() -> str | None:
        made = Clients.of(settings, in_process, in_process.metrics("check"))
        try:
            return await work(settings, made)
        finally:
            for connected in made.connections.values():
                await connected.aclose()

    key = "rerank" if section == "reranker" else section
    try:
        wrong = asyncio.run(ask())
    except ConfigError as error:
        return Finding("error", section, str(error), f"Correct the section {key}.")
    except BackendError as error:
        denied = error.reason is Reason.UNAUTHORIZED
        remedy = f"Correct {key}.api_key." if denied else f"Start the server, or correct {key}.url and {key}.model."
        return Finding("error", section, str(error), remedy)
    if wrong is not None:
        return Finding("error", section, wrong, f"Correct qdrant.dimension, or the section {key}.")
    return Finding("ok", section, f"{name} answers")


async def _embed(settings: Settings, made: Clients) -> str | None:
    assert made.embedder is not None
    return await mismatch(made.embedder, settings.qdrant.dimension, _TIMEOUT)


async def _score(settings: Settings, made: Clients) -> str | None:
    assert made.reranker is not None
    request = RerankRequest(_TEXT, {"0": "an answer"}, settings.qdrant.held[0], settings.defaults.namespace)
    [outcome] = await made.reranker.score([request], timeout=_TIMEOUT)
    if isinstance(outcome, BackendError):
        raise outcome
    return None
