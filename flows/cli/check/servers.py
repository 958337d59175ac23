"""The findings of `rankstream check` about servers: one real call to each model, its speed, and the clocks of all.

Texts are of one common word and numbers. Few calls are made, none twice: figures are of an order, and no more.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing, nullcontext
from functools import partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import httpx

from flows.assembly import clients
from flows.assembly.clients import InProcess, mismatch
from flows.cli.check import Finding
from operators.clients.chat.completions import NoCompletion
from operators.clients.http.transport import read_http_date
from operators.clients.local.cross_encoder import CrossEncoder
from operators.clients.local.minilm import MiniLM
from operators.clients.rerankers import RerankRequest
from operators.clients.rerankers.listwise import FORM, Orderer, read_order, write_prompt
from operators.query.backend_answers import refused_of
from schemas.errors import BackendBadResponse, BackendError, CacheNotWritable, ConfigError, Reason
from schemas.settings import ChatSettings, Settings
from schemas.settings.section import Backend as Section
from schemas.texts import printable

_TIMEOUT: Final = 10.0
_TEXT: Final = "a question"
_DOCUMENTS: Final = {"0": "an answer", "1": "something else"}
_LONGEST: Final = 60.0
"""Seconds that a chat model may think."""

_WORD: Final = "water "
_PROMPT: Final = {str(number): f"{number} " + _WORD * 80 for number in range(20)}
"""Documents of the call by which it is measured how quickly a chat model reads."""

_FITTING: Final = {
    "embedder": "Correct qdrant.dimension, or embedder.kind, embedder.url and embedder.model.",
    "sparse_encoder": "Correct sparse_encoder.kind, sparse_encoder.url and sparse_encoder.model.",
    "rerank": "Correct rerank.kind, rerank.url, rerank.model and rerank.body.",
}

_BATCH: Final = 32
"""Most texts of the call whose time is taken."""

_CHARS: Final = 512
"""Characters of each of them."""

_LENGTHS: Final = tuple(_CHARS << doubled for doubled in range(1, 8))
"""Characters of the texts that are tried, up to 65,536."""


class Measured(NamedTuple):
    """The `refusal` of a full call, and facts, in words."""

    refusal: str | None = None
    facts: Sequence[str] = ()


async def measure_server(ask: Callable[[Sequence[str]], Awaitable[object]], most: int) -> Measured:
    """Measure a server that answers `ask`, in calls of `most` texts; BackendError: it does not take the text."""
    texts = [_make_text(_CHARS, number) for number in range(min(most, _BATCH))]
    refusal, facts = None, []
    started = time.monotonic()
    try:
        await ask(texts)
    except BackendError as error:
        refusal = f"it does not answer a call of {len(texts)} texts of {_CHARS} characters: {explain(error)}"
    else:
        speed = len(texts) * _CHARS / (time.monotonic() - started)
        facts.append(f"{speed:,.0f} characters a second")
    longest, why = len(_WORD), "whole or cut"
    for length in _LENGTHS:
        try:
            await ask([_make_text(length, 0)])
        except BackendError as error:
            why = f"of {length:,} not: {explain(error)}"
            break
        longest = length
    return Measured(refusal, [*facts, f"a text of {longest:,} characters is taken, {why}"])


def explain(error: BackendError, section: str = "") -> str:
    """The error, and the server's own words: the texts here are nobody's, so they may be quoted."""
    symptom = str(error).removeprefix(f"{section}: ")
    return printable(f"{symptom}: {error.quoted}" if error.quoted else symptom)


def _make_text(length: int, number: int) -> str:
    return (f"{number} " + _WORD * length)[:length]


def check_embedder(settings: Settings, in_process: InProcess) -> Iterator[Finding]:
    """The findings about the embedder: it must make vectors of the index's length."""
    section = settings.embedder
    if section.kind == "none":
        yield Finding("ok", "embedder", "none is configured: queries and documents bring their vectors")
    else:
        yield from _call("embedder", f"{section.kind}, {section.model}", _embed(settings, in_process))


def check_sparse_encoder(settings: Settings, in_process: InProcess) -> Iterator[Finding]:
    """The findings about the sparse encoder: it must make terms of a text."""
    section = settings.sparse_encoder
    if section.kind == "none":
        yield Finding("ok", "sparse_encoder", "none is configured")
    else:
        yield from _call("sparse_encoder", f"{section.kind}, {section.model}", _encode(settings, in_process))


def check_reranker(settings: Settings, in_process: InProcess) -> Iterator[Finding]:
    """The findings about the reranker: it must score a text. Late interaction depends on the collections' findings."""
    section = settings.rerank
    if section.kind in {"none", "late_interaction"}:
        yield Finding("ok", "reranker", f"{section.kind}: no server is needed")
    elif section.kind == "chat":
        yield Finding("ok", "reranker", "the chat model reranks (--part chat)")
    else:
        yield from _call("reranker", f"{section.kind} {section.model}".strip(), _score(settings, in_process))


def check_chat(settings: Settings, in_process: InProcess) -> Iterator[Finding]:
    """The findings about the chat model: it must put two texts in order, in the form that it is asked for."""
    if settings.chat.kind == "none":
        yield Finding("ok", "chat", "none is configured")
        return
    try:
        yield from asyncio.run(_order(settings.chat, in_process))
    except ConfigError as error:
        yield Finding("error", "chat", str(error), "Correct the section chat.")
    except BackendError as error:
        yield Finding("error", "chat", *_unanswered(error))


async def _order(section: ChatSettings, in_process: InProcess) -> list[Finding]:
    model = clients.make_chat_model(section, in_process.metrics("check"))
    assert model is not None
    warnings = []

    def warn(what: str, remedy: str) -> None:
        warnings.append(Finding("warning", "chat", what, remedy))

    async def ask(prompt: str) -> tuple[str, float]:
        started = time.monotonic()
        answer = await model.complete(Orderer.system, prompt, FORM, timeout=max(section.timeout, _LONGEST))
        return answer, time.monotonic() - started

    async with aclosing(model):
        answer, took = await ask(write_prompt(RerankRequest(_TEXT, _DOCUMENTS, "", "")))
        read_order(answer, len(_DOCUMENTS))
        facts = [f"{section.kind}, {section.model} answers in {took:.1f} s"]
        if section.structured != "none" and not answer.lstrip().startswith("{"):
            what = f"{section.model} answers a text, and no structured output by {section.structured}"
            warn(what, "Set chat.structured to a way that the server has, or to none.")
        if took > section.timeout:
            what = f"an answer took {took:.1f} s, and chat.timeout is {section.timeout:g} s"
            warn(what, "Raise chat.timeout, or have the model think less by chat.parameters.")
        prompt = write_prompt(RerankRequest(_TEXT, _PROMPT, "", ""))
        try:
            _, took = await ask(prompt)
            facts.append(f"a prompt of {len(prompt):,} characters in {took:.1f} s")
        except BackendError as error:
            asked = f"a prompt of {len(_PROMPT)} texts, {len(prompt):,} characters"
            remedy = "Have it read fewer candidates (rerank_top, top_k), or see the server's log."
            warn(f"it does not answer {asked}: {explain(error)}", remedy)
    return [*warnings, Finding("ok", "chat", "; ".join(facts))]


_REFUSED: Final = (
    "Correct chat.model, or what it refuses: max_tokens by chat.kind (openai_reasoning has max_completion_tokens), a"
    " JSON schema or a tool by chat.structured, other parameters by chat.parameters, such as temperature: null."
)


def _unanswered(error: BackendError) -> tuple[str, str]:
    """The symptom and its remedy, in the words of the server if there are any: the request is nobody's."""
    if isinstance(error, NoCompletion):
        return error.symptom, f"{error.cure[0].upper()}{error.cure[1:]}."
    answered = error.status is not None
    remedies = {
        Reason.UNAUTHORIZED: "Correct chat.api_key.",
        Reason.BAD_RESPONSE: _REFUSED if answered else "Set chat.structured to another way, or choose another model.",
        Reason.TIMEOUT: "Have the model think less by chat.parameters, or choose a faster one.",
    }
    remedy = remedies.get(error.reason, "Start the server, or correct chat.url and chat.model.")
    if error.status == HTTPStatus.NOT_FOUND and error.reason is not Reason.UNAUTHORIZED:
        remedy = f"Correct chat.url, which holds the API's version, such as /v1. {_REFUSED}"
    return explain(error, "chat"), remedy


def _call(section: str, name: str, work: Coroutine[Any, Any, Measured]) -> Iterator[Finding]:
    """The findings about a model by the calls to it, which raise BackendError or ConfigError if it cannot be used."""
    key = clients.section_of(section)
    try:
        measured = asyncio.run(work)
    except CacheNotWritable as error:
        yield Finding("error", section, str(error), "Name a directory that can be written, with room for a model.")
    except ConfigError as error:
        yield Finding("error", section, str(error), f"Correct the section {key}.")
    except BackendError as error:
        remedies = {Reason.UNAUTHORIZED: f"Correct {key}.api_key.", Reason.BAD_RESPONSE: _FITTING[key]}
        start = f"Start the server, or correct {key}.url and {key}.model."
        yield Finding("error", section, explain(error, section), remedies.get(error.reason, start))
    else:
        if measured.refusal is not None:
            remedy = f"Lower {key}.max_batch, raise {key}.timeout, or see the server's log."
            yield Finding("warning", section, measured.refusal, remedy)
        yield Finding("ok", section, "; ".join([f"{name} answers", *measured.facts]))


async def _embed(settings: Settings, in_process: InProcess) -> Measured:
    # Without the other clients: the embedder answers while another process has the index.
    made = clients.make_embedder(settings, in_process, in_process.metrics("check"))
    assert made is not None
    # The model in this process serves other checks, too.
    async with nullcontext() if isinstance(made, MiniLM) else aclosing(made):
        if wrong := await mismatch(made, settings.qdrant.dimension, _TIMEOUT):
            raise BackendBadResponse(wrong)
        if isinstance(made, MiniLM):
            return Measured()
        ask = partial(made.embed, purpose="document", timeout=_TIMEOUT)
        return await measure_server(ask, settings.embedder.max_batch)


async def _encode(settings: Settings, in_process: InProcess) -> Measured:
    made = clients.make_sparse_encoder(settings.sparse_encoder, in_process.metrics("check"))
    assert made is not None
    async with aclosing(made):
        [vector] = await made.embed([_TEXT], purpose="query", timeout=_TIMEOUT)
        if not vector.indices:
            raise BackendBadResponse("its vector of a text has no term")
        ask = partial(made.embed, purpose="document", timeout=_TIMEOUT)
        return await measure_server(ask, settings.sparse_encoder.max_batch)


async def _score(settings: Settings, in_process: InProcess) -> Measured:
    # Without the other clients, as the embedder.
    reranker = clients.make_cross_encoder(settings, in_process, in_process.metrics("check"))
    scores: list[float] = []

    async def ask(texts: Sequence[str]) -> None:
        documents = {str(place): text for place, text in enumerate(texts)}
        request = RerankRequest(_TEXT, documents, settings.qdrant.physical[0], settings.defaults.namespace)
        [outcome] = await reranker.score([request], timeout=_TIMEOUT)
        if isinstance(outcome, BackendError):
            raise outcome
        if refused := refused_of(outcome):
            raise BackendBadResponse(f"reranker: it refuses {len(refused)} of {len(texts)} texts")
        scores.extend(outcome.values())

    async with nullcontext() if isinstance(reranker, CrossEncoder) else aclosing(reranker):
        await ask(["an answer"])
        if not settings.rerank.served:
            return Measured()
        found = await measure_server(ask, settings.rerank.documents)
        where = "are in [0, 1]" if all(0 <= score <= 1 for score in scores) else "leave [0, 1]: logits"
        return found._replace(facts=[*found.facts, f"scores {where}"])


_CLOCK_TIMEOUT: Final = 5.0

_MOST: Final = 2.0
"""Seconds by which clocks may differ: deadlines are counted in such times."""

_WHY: Final = "deadlines, ages and dates count from the clocks of the producers and of this machine"


async def ahead(url: str, transport: httpx.AsyncBaseTransport) -> tuple[float, float] | None:
    """The seconds that this machine's clock is ahead of the server's, at least and at most; negative: behind.

    The server is asked for its base URL, without a key, and may answer by any status. None: the answer has no date. A
    `Date` counts whole seconds, and was set at some time between request and answer. Raises httpx.HTTPError and
    OSError.
    """
    async with httpx.AsyncClient(transport=transport) as client, asyncio.timeout(_CLOCK_TIMEOUT):
        sent = time.time()
        async with client.stream("GET", url) as response:
            answered = time.time()
    since = read_http_date(response.headers.get("date", ""))
    return None if since is None else (sent - since - 1.0, answered - since)


def check_clocks(settings: Settings, _: InProcess) -> Iterator[Finding]:
    """The findings about clocks: this machine's must agree with that of each server that is asked over HTTP."""
    sections: dict[str, tuple[Section, bool]] = {
        "qdrant": (settings.qdrant, True),
        "embedder": (settings.embedder, settings.embedder.served),
        "sparse_encoder": (settings.sparse_encoder, settings.sparse_encoder.served),
        "reranker": (settings.rerank, settings.rerank.served),
        "chat": (settings.chat, settings.chat.kind != "none"),
    }

    async def compare() -> list[Finding]:
        used = ((name, each, each.url) for name, (each, used) in sections.items() if used and each.url is not None)
        return await asyncio.gather(*(_compare_clock(*each) for each in used))

    none = Finding("ok", "clock", "not compared: no backend is asked over HTTP")
    yield from asyncio.run(compare()) or [none]


async def _compare_clock(name: str, section: Section, url: str) -> Finding:
    subject = f"clock {name}"
    try:
        found = await ahead(url, clients.transport(name, section, url))
    except (httpx.HTTPError, OSError, ConfigError) as error:
        return Finding("ok", subject, f"not compared: {str(error) or 'no answer in time'}")
    if found is None:
        return Finding("ok", subject, "not compared: the answer has no date")
    least, most = found
    if least <= _MOST and most >= -_MOST:
        return Finding("ok", subject, "it agrees with this machine's clock")
    about = round((least + most) / 2)
    differs = f"this machine's clock is about {abs(about)} s {'ahead of' if about > 0 else 'behind'} it"
    return Finding("warning", subject, f"{differs}: {_WHY}", "Synchronise the clocks of all machines (NTP).")
