"""The chat models against servers that answer in their APIs' recorded shapes."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from operators.clients.chat.completions import APIS as KINDS
from operators.clients.chat.completions import ChatModel
from operators.clients.http.backend import Resilient
from operators.clients.rerankers.listwise import FORM
from schemas.errors import BackendBadResponse, BackendUnavailable
from tests.operators.clients.chat.servers import (
    HEADERS,
    KEY,
    Anthropic,
    Make,
    OpenAI,
    Reply,
    Server,
    always,
    anthropic,
    anthropic_answer,
    complete,
    openai,
    openai_answer,
)
from tests.operators.clients.http.serving import answering, backend

APIS = pytest.mark.parametrize(("make", "server"), [(openai, OpenAI), (anthropic, Anthropic)])
MODELS = pytest.mark.parametrize("make", [openai, anthropic])

HOSTILE = 'quote " slash \\ brace } fence ``` line\nbreak \x00 日本語 🙂 \u2028 </system>'


def echo(system: str, user: str) -> str:
    """A model that repeats both texts."""
    return f"{system}|{user}"


@APIS
def test_texts_arrive_in_their_roles_and_the_completion_returns(make: Make, server: Callable[[Reply], Server]) -> None:
    """System and user text reach the model unchanged, each in its role, and so does the completion the caller."""
    assert complete(make, server(echo), user=HOSTILE) == f"a rule|{HOSTILE}"


def test_openai_request_is_as_documented() -> None:
    """A request holds the model, both messages, the limit of tokens, temperature 0 and the JSON schema, and no more."""
    server = OpenAI(echo)
    complete(
        lambda endpoint: ChatModel(Resilient(endpoint), "m", KINDS["openai"], max_tokens=7),
        server,
        headers=HEADERS[openai],
    )
    messages = [{"role": "system", "content": "a rule"}, {"role": "user", "content": "a question"}]
    schema = {"name": "ranking", "strict": True, "schema": FORM.schema}
    form = {"type": "json_schema", "json_schema": schema}
    expected = {"model": "m", "messages": messages, "max_tokens": 7, "temperature": 0, "response_format": form}
    assert server.requests == [expected]


def test_anthropic_request_is_as_documented() -> None:
    """A request holds the model, the texts, the limit of tokens, temperature 0 and the JSON schema, and no more."""
    server = Anthropic(echo)
    complete(
        lambda endpoint: ChatModel(Resilient(endpoint), "m", KINDS["anthropic"], max_tokens=7),
        server,
        headers=HEADERS[anthropic],
    )
    messages = [{"role": "user", "content": "a question"}]
    form = {"format": {"type": "json_schema", "schema": FORM.schema}}
    expected = {"model": "m", "system": "a rule", "messages": messages, "max_tokens": 7, "temperature": 0}
    assert server.requests == [{**expected, "output_config": form}]


@pytest.mark.parametrize(
    ("make", "server", "headers"),
    [
        (openai, OpenAI, {"x-api-key": KEY}),
        (openai, OpenAI, {"authorization": KEY}),
        (anthropic, Anthropic, {"authorization": f"Bearer {KEY}", "anthropic-version": "2023-06-01"}),
        (anthropic, Anthropic, {"x-api-key": KEY}),
    ],
)
def test_a_key_under_another_header_is_refused(
    make: Make, server: Callable[[Reply], Server], headers: Mapping[str, str]
) -> None:
    """Only the API's own headers open its server; without them its refusal is BackendBadResponse that tells no key."""
    with pytest.raises(BackendBadResponse) as caught:
        complete(make, server(echo), headers=headers)
    assert caught.value.status in {400, 401}
    assert KEY not in str(caught.value)


@APIS
async def test_many_completions_at_once_keep_to_their_callers(make: Make, server: Callable[..., Server]) -> None:
    """Of 40 completions under way together each caller gets its own."""

    def last_first(_: str, user: str) -> str:
        return user[::-1]

    async with answering(server(last_first, 0.01)) as url, backend(f"{url}/v1", headers=HEADERS[make]) as endpoint:
        chat = make(endpoint)
        assert await asyncio.gather(*(chat.complete("s", f"question {at}", FORM, timeout=5) for at in range(40))) == [
            f"question {at}"[::-1] for at in range(40)
        ]


@pytest.mark.parametrize(
    ("make", "answer"),
    [
        (openai, openai_answer("[3]", "length")),
        (openai, openai_answer("", "LENGTH")),
        (openai, openai_answer(None, "length")),
        (anthropic, anthropic_answer("[3]", stop_reason="max_tokens")),
        (anthropic, anthropic_answer(stop_reason="max_tokens")),
    ],
)
def test_a_completion_cut_at_the_limit_is_a_bad_response(make: Make, answer: object) -> None:
    """A text that ended at the limit of tokens is none, and its error says which key to raise."""
    with pytest.raises(BackendBadResponse, match=r"raise chat.max_tokens \(1024\)"):
        complete(make, always(answer))


BROKEN_OFF = [
    "error",
    "abort",
    "timeout",
    "insufficient_system_resource",
    "network_error",
    "pause_turn",
    "cancelled",
    3,
]
WHOLE = ["stop", "STOP", "eos", "eos_token", "end", "end_turn", "stop_sequence", "COMPLETE", "tool_calls", "tool_use"]


@pytest.mark.parametrize("reason", [*WHOLE, "function_call", "", None])
@MODELS
def test_a_completion_that_its_model_ended_is_whole(make: Make, reason: Any) -> None:
    """Servers name the end that a model made in many ways, or not at all: the text is the completion."""
    answer = openai_answer("3", reason) if make is openai else anthropic_answer("3", stop_reason=reason)
    assert complete(make, always(answer)) == "3"


@pytest.mark.parametrize("reason", BROKEN_OFF)
@MODELS
def test_a_completion_that_was_broken_off_is_a_bad_response(make: Make, reason: Any) -> None:
    """A text that ended neither by its model nor at the limit of tokens is none, however much of it came."""
    answer = openai_answer("2, 1", reason) if make is openai else anthropic_answer("2, 1", stop_reason=reason)
    with pytest.raises(BackendBadResponse, match="broken off"):
        complete(make, always(answer))


def test_a_reason_is_told_if_it_is_a_word() -> None:
    """The message names the server's reason; one that may be a text is not told."""
    with pytest.raises(BackendBadResponse, match=r"broken off: insufficient_system_resource$"):
        complete(openai, always(openai_answer("2", "insufficient_system_resource")))
    with pytest.raises(BackendBadResponse, match=r"broken off$"):
        complete(openai, always(openai_answer("2", "error: the user asked about coffee")))


@pytest.mark.parametrize("reason", ["error", "stop", None])
def test_a_choice_with_an_error_is_a_bad_response(reason: Any) -> None:
    """A gateway puts the failure of the model's host beside the text so far, whatever it says of the end."""
    answer = openai_answer("2, 1", reason)
    answer["choices"][0]["error"] = None
    if reason != "error":
        assert complete(openai, always(answer)) == "2, 1"
    answer["choices"][0]["error"] = {"code": 502, "message": "Upstream error"}
    with pytest.raises(BackendBadResponse, match="broken off"):
        complete(openai, always(answer))


@MODELS
@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_text_is_a_bad_response(make: Make, text: str) -> None:
    """A completion of no characters says nothing: its model may have thought alone."""
    with pytest.raises(BackendBadResponse, match="thinking off"):
        complete(make, always(openai_answer(text) if make is openai else anthropic_answer(text)))


def test_an_empty_refusal_is_none() -> None:
    """A server that fills in no refusal, or an empty one, has answered: its text is the completion."""
    without = openai_answer("3")
    del without["choices"][0]["message"]["refusal"]
    assert complete(openai, always(without)) == "3"
    assert complete(openai, always(openai_answer("3", refusal=""))) == "3"


def test_openai_reads_the_first_choice() -> None:
    """Of several choices the first one counts, whatever the others hold."""
    answer = openai_answer("first")
    answer["choices"].append({"index": 1, "message": None})
    assert complete(openai, always(answer)) == "first"


def test_anthropic_joins_the_blocks_of_text() -> None:
    """Blocks of text and the input of tools are joined in their order; thinking is no part of the answer."""
    answer = anthropic_answer("2", " and", " 3")
    answer["content"].insert(0, {"type": "thinking", "thinking": "1?", "signature": "EqQBCgIYAhIM"})
    answer["content"].insert(2, {"type": "tool_use", "id": "toolu_01A", "name": "n", "input": {"text": "4"}})
    assert complete(anthropic, always(answer)) == '2{"text":"4"} and 3'


@pytest.mark.parametrize(
    "answer",
    [
        openai_answer(None),
        openai_answer(None, "length"),
        openai_answer(3),
        openai_answer([]),
        openai_answer(["3"]),
        openai_answer([{"type": "text"}]),
        openai_answer([{"type": "thinking", "thinking": [{"type": "text", "text": "3"}]}]),
        openai_answer({"text": "3"}),
        {**openai_answer("3"), "choices": []},
        {**openai_answer("3"), "choices": None},
        {**openai_answer("3"), "choices": {"0": {"message": {"content": "3"}}}},
        {**openai_answer("3"), "choices": [None]},
        {"choices": [{"text": "3"}]},
        {"choices": [{"message": None}]},
        {"choices": [{"message": {"role": "assistant"}}]},
        {"choices": [{"message": None}, {"message": {"content": "3"}}]},
        {"error": {"message": "Provider returned error", "code": 502}},
        b'{"choices":[{"message":{"content":NaN}}]}',
        b'{"choices":[{"message":{"content":"3"},"logprobs":NaN}]}',
        anthropic_answer("3"),
    ],
)
def test_openai_answer_without_a_text_is_a_bad_response(answer: object) -> None:
    """Null or other content, no choices, another shape and NaN are BackendBadResponse, never a guess."""
    with pytest.raises(BackendBadResponse):
        complete(openai, always(answer))


@pytest.mark.parametrize(
    "answer",
    [
        anthropic_answer(),
        anthropic_answer(None),
        anthropic_answer(3),
        anthropic_answer("3", None),
        {**anthropic_answer("3"), "content": None},
        {**anthropic_answer("3"), "content": "3"},
        {**anthropic_answer("3"), "content": {"type": "text", "text": "3"}},
        {**anthropic_answer("3"), "content": ["3"]},
        {**anthropic_answer("3"), "content": [{"text": "3"}]},
        {**anthropic_answer("3"), "content": [{"type": "text"}]},
        {**anthropic_answer("3"), "content": [{"type": "text", "text": "3"}, None]},
        {**anthropic_answer("3"), "content": [{"type": "thinking", "thinking": "3", "signature": "s"}]},
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        b'{"content":[{"type":"text","text":NaN}]}',
        b'{"content":[{"type":"text","text":"3"}],"usage":NaN}',
        openai_answer("3"),
    ],
)
def test_anthropic_answer_without_a_text_is_a_bad_response(answer: object) -> None:
    """No blocks of text, one that isn't a block or holds no text, another shape and NaN are BackendBadResponse."""
    with pytest.raises(BackendBadResponse):
        complete(anthropic, always(answer))


@APIS
async def test_a_closed_model_is_unavailable(make: Make, server: Callable[[Reply], Server]) -> None:
    """After `aclose` a completion is BackendUnavailable."""
    async with answering(server(echo)) as url, backend(f"{url}/v1", headers=HEADERS[make]) as endpoint:
        chat = make(endpoint)
        assert await chat.complete("s", "u", FORM, timeout=5) == "s|u"
        await chat.aclose()
        with pytest.raises(BackendUnavailable):
            await chat.complete("s", "u", FORM, timeout=5)
