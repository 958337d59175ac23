"""The findings of `rankstream check` about the embedder and the reranker: one real call to each."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Final

from flows.assembly import clients
from flows.assembly.clients import Clients, InProcess
from flows.assembly.suitability import mismatch
from flows.cli.findings import Finding
from operators.clients.local.minilm import MiniLM
from operators.clients.rerankers import RerankRequest
from schemas.errors import BackendError, ConfigError, Reason
from schemas.settings import Settings

_TIMEOUT: Final = 10.0
_TEXT: Final = "a question"
_FITTING: Final = "Correct qdrant.dimension, or the section {}."


def embedder(settings: Settings, in_process: InProcess) -> Iterator[Finding]:
    """Whether the embedder makes vectors of the length that the index has."""
    section = settings.embedder
    if section.kind == "none":
        yield Finding("ok", "embedder", "none is configured: queries and documents bring their vectors")
    else:
        yield _asked("embedder", f"{section.kind}, {section.model}", partial(_embed, settings, in_process))


def reranker(settings: Settings, in_process: InProcess) -> Iterator[Finding]:
    """Whether the reranker scores a text; late interaction depends on the collections, whose findings say so."""
    section = settings.rerank
    if section.kind in {"none", "late_interaction"}:
        yield Finding("ok", "reranker", f"{section.kind}: no server is needed")
    else:
        name = f"{section.kind} {section.model}".strip()
        yield _asked("reranker", name, partial(_score, settings, in_process))


Work = Callable[[], Coroutine[None, None, str | None]]
"""Makes the call, and returns what is wrong with its answer. Raises BackendError."""


def _asked(section: str, name: str, work: Work) -> Finding:
    key = "rerank" if section == "reranker" else section
    try:
        wrong = asyncio.run(work())
    except ConfigError as error:
        return Finding("error", section, str(error), f"Correct the section {key}.")
    except BackendError as error:
        denied = error.reason is Reason.UNAUTHORIZED
        remedy = f"Correct {key}.api_key." if denied else f"Start the server, or correct {key}.url and {key}.model."
        if error.reason is Reason.BAD_RESPONSE:
            remedy = _FITTING.format(key)
        return Finding("error", section, str(error).removeprefix(f"{section}: "), remedy)
    if wrong is not None:
        return Finding("error", section, wrong, _FITTING.format(key))
    return Finding("ok", section, f"{name} answers")


async def _embed(settings: Settings, in_process: InProcess) -> str | None:
    # Without the other clients: the embedder answers while another process has the index.
    made = clients.embedder(settings, lambda: in_process.minilm, in_process.metrics("check"))
    assert made is not None
    try:
        return await mismatch(made, settings.qdrant.dimension, _TIMEOUT)
    finally:
        # The model in this process serves other checks, too.
        if not isinstance(made, MiniLM):
            await made.aclose()


async def _score(settings: Settings, in_process: InProcess) -> str | None:
    made = Clients.of(settings, in_process, in_process.metrics("check"))
    assert made.reranker is not None
    request = RerankRequest(_TEXT, {"0": "an answer"}, settings.qdrant.held[0], settings.defaults.namespace)
    try:
        [outcome] = await made.reranker.score([request], timeout=_TIMEOUT)
    finally:
        for connected in made.connections.values():
            await connected.aclose()
    if isinstance(outcome, BackendError):
        raise outcome
    return None
