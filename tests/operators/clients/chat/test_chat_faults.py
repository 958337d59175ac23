"""The chat models against servers that refuse, fail, dawdle or answer garbage, and what their breaker makes of it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from operators.clients.rerankers.listwise import FORM
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, BackendUnavailable
from tests.operators.clients.chat.servers import (
    HEADERS,
    KEY,
    Anthropic,
    Make,
    OpenAI,
    Server,
    always,
    anthropic,
    anthropic_answer,
    anthropic_error,
    complete,
    openai,
    openai_answer,
    openai_error,
)
from tests.operators.clients.http.faults import OK, sending
from tests.operators.clients.http.serving import Handler, Serve, answering, backend, speaking

pytestmark = pytest.mark.slow

APIS = pytest.mark.parametrize(("make", "server"), [(openai, OpenAI), (anthropic, Anthropic)])
MODELS = pytest.mark.parametrize("make", [openai, anthropic])

BREAKS = 5
"""After how many failures in a row a breaker opens."""


def echo(system: str, user: str) -> str:
    """A model that repeats both texts."""
    return f"{system}|{user}"


GARBAGE = [
    b"",
    b"2",
    b"null",
    b'"text"',
    b"[]",
    b"{}",
    b"NaN",
    b"<html>502 Bad Gateway</html>",
    b"\xff\xfe",
    b"data: {}",
]


@MODELS
@pytest.mark.parametrize("body", GARBAGE)
def test_garbage_is_a_bad_response(make: Make, body: bytes) -> None:
    """A body of any other shape, or that isn't JSON, is BackendBadResponse."""
    with pytest.raises(BackendBadResponse):
        complete(make, always(body))


@pytest.mark.parametrize(("make", "error"), [(openai, openai_error), (anthropic, anthropic_error)])
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, BackendBadResponse),
        (401, BackendBadResponse),
        (404, BackendBadResponse),
        (408, BackendTimeout),
        (413, BackendBadResponse),
        (429, BackendUnavailable),
        (500, BackendUnavailable),
        (503, BackendUnavailable),
        (529, BackendUnavailable),
    ],
)
def test_an_error_is_its_own_error(
    make: Make, error: Callable[[str, str, int], web.Response], status: int, kind: type[BackendError]
) -> None:
    """Overload (529, too) and server errors are BackendUnavailable, 408 is BackendTimeout, others BackendBadResponse.

    Of what the server says of it nothing is told on.
    """

    async def refuse(_: web.Request) -> web.Response:
        return error("rate_limit_error", f"a question {KEY}", status)

    with pytest.raises(BackendError) as caught:
        complete(make, refuse)
    assert (type(caught.value), caught.value.status) == (kind, status)
    assert "a question" not in str(caught.value)
    assert KEY not in str(caught.value)


@APIS
def test_a_slow_model_is_a_timeout(make: Make, server: Callable[..., Server]) -> None:
    """A model that takes longer than the time-out is BackendTimeout."""
    with pytest.raises(BackendTimeout):
        complete(make, server(echo, 5.0), timeout=0.1)


@MODELS
@pytest.mark.parametrize(
    ("serve", "kind"),
    [
        (sending(OK + b'content-length: 900\r\n\r\n{"choices":[{"message":{"content":"3'), BackendUnavailable),
        (sending(OK + b"content-length: 900\r\n\r\n{", then_hang=True), BackendTimeout),
        (sending(OK + b'content-length: 11\r\n\r\n{"choices":'), BackendBadResponse),
        (sending(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), BackendBadResponse),
        (sending(b""), BackendUnavailable),
    ],
    ids=["cut", "hung", "cut JSON", "not HTTP", "closed"],
)
async def test_a_broken_answer_is_its_own_error(make: Make, serve: Serve, kind: type[BackendError]) -> None:
    """An answer that breaks off is no text, whatever of it arrived."""
    with pytest.raises(BackendError) as caught:
        async with speaking(serve) as url, backend(f"{url}/v1", headers=HEADERS[make]) as endpoint:
            await make(endpoint).complete("a rule", "a question", FORM, timeout=1)
    assert type(caught.value) is kind


REFUSALS = [
    (openai, openai_answer(None, refusal="I can't assist with that.")),
    (openai, openai_answer("", refusal="I can't assist with that.")),
    (openai, openai_answer(None, "content_filter")),
    (openai, openai_answer("2, 1", "content_filter")),
    (openai, openai_answer("2, 1", "sensitive")),
    (openai, openai_answer("2, 1", "SAFETY")),
    (anthropic, anthropic_answer(stop_reason="refusal")),
    (anthropic, anthropic_answer("2, 1", stop_reason="refusal")),
]


@pytest.mark.parametrize(("make", "answer"), REFUSALS)
def test_a_refusal_is_a_bad_response(make: Make, answer: object) -> None:
    """A refusal of a model or a filter is no text, not even the part that it had said, and isn't told."""
    with pytest.raises(BackendBadResponse, match="refused") as caught:
        complete(make, always(answer))
    assert "assist" not in str(caught.value)


def outcomes(make: Make, handler: Handler, count: int) -> list[str | type[BackendError]]:
    """The replies of one chat model to so many questions, one after the other."""

    async def scenario() -> list[str | type[BackendError]]:
        said: list[str | type[BackendError]] = []
        async with answering(handler) as url, backend(f"{url}/v1", headers=HEADERS[make]) as endpoint:
            chat = make(endpoint)
            for _ in range(count):
                try:
                    said.append(await chat.complete("a rule", "a question", FORM, timeout=5))
                except BackendError as error:
                    said.append(type(error))
        return said

    return asyncio.run(scenario())


def in_turn(*answers: Any) -> Handler:
    """A server that gives each of the answers once."""
    left = iter(answers)

    async def answer(request: web.Request) -> web.StreamResponse:
        return await always(next(left))(request)

    return answer


@pytest.mark.parametrize(("make", "answer"), REFUSALS)
def test_refusals_do_not_open_the_breaker(make: Make, answer: object) -> None:
    """However many texts in a row a model refuses, it is asked about the next one."""
    right = openai_answer("3") if make is openai else anthropic_answer("3")
    said = outcomes(make, in_turn(*[answer] * 2 * BREAKS, right), 2 * BREAKS + 1)
    assert said == [BackendBadResponse] * 2 * BREAKS + ["3"]


@MODELS
def test_garbage_opens_the_breaker(make: Make) -> None:
    """A server that answers JSON of another shape again and again, to control requests, too, is left alone."""
    said = outcomes(make, in_turn(*[{"detail": "starting"}] * (2 * BREAKS)), BREAKS + 1)
    assert said == [BackendBadResponse] * BREAKS + [BackendUnavailable]
