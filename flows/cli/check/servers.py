"""The findings of `rankstream check` about servers: one real call to embedder and reranker, and the clocks of all."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from typing import Final

from flows.assembly import clients
from flows.assembly.clients import Clients, InProcess
from flows.assembly.suitability import mismatch
from flows.cli.check import Finding
from operators.clients.http.clock import Ahead, ahead
from operators.clients.http.transport import http_transport
from operators.clients.local.minilm import MiniLM
from operators.clients.rerankers import RerankRequest
from schemas.errors import BackendError, ConfigError, Reason
from schemas.settings import Settings

_TIMEOUT: Final = 10.0
_TEXT: Final = "a question"
_FITTING: Final = "Correct qdrant.dimension, or the section {}."


def embedder(settings: Settings, in_process: InProcess) -> Iterator[Finding]:
    """The finding about the embedder: it must make vectors of the index's length."""
    section = settings.embedder
    if section.kind == "none":
        yield Finding("ok", "embedder", "none is configured: queries and documents bring their vectors")
    else:
        yield _call("embedder", f"{section.kind}, {section.model}", partial(_embed, settings, in_process))


def reranker(settings: Settings, in_process: InProcess) -> Iterator[Finding]:
    """The finding about the reranker: it must score a text. Late interaction depends on the collections' findings."""
    section = settings.rerank
    if section.kind in {"none", "late_interaction"}:
        yield Finding("ok", "reranker", f"{section.kind}: no server is needed")
    else:
        name = f"{section.kind} {section.model}".strip()
        yield _call("reranker", name, partial(_score, settings, in_process))


Work = Callable[[], Coroutine[None, None, str | None]]
"""Makes the call, and returns what is wrong with its answer. Raises BackendError."""


def _call(section: str, name: str, work: Work) -> Finding:
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


_CLOCK_TIMEOUT: Final = 5.0

_MOST: Final = 2.0
"""Seconds by which clocks may differ: deadlines are counted in such times."""

_WHY: Final = "deadlines, ages and dates count from the clocks of the producers and of this machine"

Compared = Ahead | BackendError | ConfigError | None


def clock(settings: Settings, _: InProcess) -> Iterator[Finding]:
    """The findings about clocks: this machine's must agree with that of each server that is asked over HTTP."""
    servers = {name: url for name, url in _servers(settings).items() if url is not None}
    if not servers:
        yield Finding("ok", "clock", "not compared: no backend is asked over HTTP")
    for name, compared in asyncio.run(_compare(servers)).items():
        yield _clock_finding(f"clock {name}", compared)


def _servers(settings: Settings) -> Mapping[str, str | None]:
    embedder, rerank, chat = settings.embedder, settings.rerank, settings.chat
    return {
        "qdrant": settings.qdrant.url,
        "embedder": embedder.url if embedder.served else None,
        "reranker": rerank.url if rerank.served else None,
        "chat": chat.url if chat.kind != "none" else None,
    }


async def _compare(servers: Mapping[str, str]) -> dict[str, Compared]:
    async def one(name: str, url: str) -> Compared:
        try:
            return await ahead(name, url, http_transport(), _CLOCK_TIMEOUT)
        except (BackendError, ConfigError) as error:
            return error

    found = await asyncio.gather(*(one(name, url) for name, url in servers.items()))
    return dict(zip(servers, found, strict=True))


def _clock_finding(subject: str, compared: Compared) -> Finding:
    if not isinstance(compared, Ahead):
        why = "the answer has no date" if compared is None else str(compared)
        return Finding("ok", subject, f"not compared: {why}")
    if compared.least <= _MOST and compared.most >= -_MOST:
        return Finding("ok", subject, "it agrees with this machine's clock")
    about = round((compared.least + compared.most) / 2)
    differs = f"this machine's clock is about {abs(about)} s {'ahead of' if about > 0 else 'behind'} it"
    return Finding("warning", subject, f"{differs}: {_WHY}", "Synchronise the clocks of all machines (NTP).")
