"""Chat servers' manners: what comes of each, and what is learnt of a refusal."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from operators.clients.chat.completions import HttpChat
from operators.clients.http.transport import CONTROL
from operators.clients.rerankers import RerankRequest
from operators.clients.rerankers.listwise import ChatSelector, Orderer
from operators.query.backend_answers import Scores
from schemas.errors import BackendBadResponse, BackendError
from tests.operators.clients.chat.manners import MANNERS
from tests.operators.clients.chat.playing import (
    ANSWER,
    ORDER,
    Answer,
    Body,
    Manner,
    Playing,
    blocks,
    if_holds,
    in_turn,
    openai_refusal,
    refusing,
    said,
)
from tests.operators.clients.http.serving import answering

REQUEST = RerankRequest("q", {f"id-{number}": "a text" for number in range(1, 6)}, "docs", "tenant")
SCORES = {f"id-{number}": 1 - place / 5 for place, number in enumerate(ORDER)}
WORDS = {"refused": "status 4", "bad answer": "neither a document's number"}
BREAKS = 5


async def ranked(chat: HttpChat) -> Scores | BackendError:
    """The orderer's outcome for REQUEST."""
    try:
        [scores] = await Orderer(chat).score([REQUEST], timeout=5)
    except BackendError as error:
        return error
    return scores


def play(manner: Manner, times: int = 1) -> tuple[list[Scores | BackendError], list[Body], HttpChat]:
    """The outcomes of so many queries, one after the other, the requests, and the client."""

    async def scenario() -> tuple[list[Scores | BackendError], list[Body], HttpChat]:
        server = Playing(manner)
        async with answering(server) as url:
            chat = manner.chat(url)
            outcomes = [await ranked(chat) for _ in range(times)]
            await chat.aclose()
            return outcomes, server.requests, chat

    return asyncio.run(scenario())


@pytest.mark.parametrize("manner", MANNERS, ids=[manner.name for manner in MANNERS])
def test_each_manner_has_its_outcome(manner: Manner) -> None:
    """Whatever form its thoughts, answers and refusals have, a server ranks, or fails with what to do about it."""
    [outcome], requests, chat = play(manner)
    if manner.outcome == "ranked":
        assert outcome == SCORES
    else:
        assert isinstance(outcome, BackendBadResponse)
        assert WORDS.get(manner.outcome, manner.outcome) in str(outcome)
    assert len(requests) == manner.calls
    assert chat.refused == manner.refused


LEARNING = [manner for manner in MANNERS if manner.refused]


@pytest.mark.parametrize("manner", LEARNING, ids=[manner.name for manner in LEARNING])
def test_a_refusal_is_learnt_once(manner: Manner) -> None:
    """The refused query has its answer, later ones cost one call each, and the log names each parameter once."""
    with capture_logs() as logged:
        outcomes, requests, _ = play(manner, 2 * BREAKS)
    assert outcomes == [SCORES] * 2 * BREAKS
    assert len(requests) == manner.calls - 1 + 2 * BREAKS
    lines = [line for line in logged if line["event"] == "chat model refuses a parameter"]
    assert {line["parameter"]: line.get("instead") for line in lines} == manner.refused
    assert len(lines) == len(manner.refused)


@pytest.mark.parametrize("manner", MANNERS, ids=[manner.name for manner in MANNERS])
def test_no_manner_of_a_text_opens_the_breaker(manner: Manner) -> None:
    """However often it comes, none of them is an outage: the last query is asked as the first was."""
    outcomes, requests, _ = play(manner, 3 * BREAKS)
    assert len(requests) >= 3 * BREAKS
    assert {type(outcome) for outcome in outcomes} == {type(outcomes[0])}


def test_many_refusals_at_once_are_said_once() -> None:
    """Of queries under way together each has its answer, and the log has one line."""
    manner = Manner("s", "c", refusing("temperature", openai_refusal("temperature is not supported")))

    async def scenario() -> list[Scores | BackendError]:
        async with answering(Playing(manner)) as url:
            chat = manner.chat(url)
            return await asyncio.gather(*(ranked(chat) for _ in range(20)))

    with capture_logs() as logged:
        assert asyncio.run(scenario()) == [SCORES] * 20
    assert [line["event"] for line in logged].count("chat model refuses a parameter") == 1


def quoting(body: Body) -> Answer:
    """A server that refuses each request, and quotes a text in which every parameter is refused."""
    return 400, openai_refusal(f"cannot: temperature, max_tokens, {sorted(body)} are not supported")


def test_what_did_not_help_is_not_kept() -> None:
    """A refusal that names parameters, and goes on without them, teaches nothing, and soon costs no further calls."""
    outcomes, requests, chat = play(Manner("s", "c", quoting), 20)
    assert {type(outcome) for outcome in outcomes} != {dict}
    assert chat.refused == {}
    assert all({"max_tokens", "temperature"} <= body.keys() for body in requests[-5:])
    assert len(requests) <= 20 + 2 * 2 * BREAKS


def test_the_limit_of_tokens_is_never_left_out() -> None:
    """A server that refuses both of its names is asked no request without a limit."""
    both = openai_refusal("max_tokens and max_completion_tokens are not supported")
    manner = Manner("s", "c", refusing(("max_tokens", "max_completion_tokens"), both))
    [outcome], requests, _ = play(manner)
    assert isinstance(outcome, BackendBadResponse)
    assert all(body.keys() & {"max_tokens", "max_completion_tokens"} for body in requests)


def test_parameters_are_set_and_left_out() -> None:
    """The settings' parameters are in every request, in place of ours, and those that are null aren't."""
    parameters: dict[str, Any] = {"temperature": None, "top_p": 0.5, "chat_template_kwargs": {"enable_thinking": False}}
    _, [body], _ = play(Manner("s", "c", said(ANSWER), parameters=parameters))
    assert "temperature" not in body
    assert body["top_p"] == 0.5
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    _, [body], _ = play(Manner("s", "c", said(ANSWER), parameters={"max_completion_tokens": 9}))
    assert "max_tokens" not in body


@pytest.mark.parametrize("way", ["json_schema", "tool"])
def test_an_empty_structured_order_is_none(way: Any) -> None:
    """In structured output, an empty ranking says that no document is relevant; a pick has the same form."""
    call = {"type": "function", "function": {"name": "ranking", "arguments": '{"ranking": []}'}}
    answer = said('{"ranking": []}') if way == "json_schema" else said(None, "tool_calls", tool_calls=[call])
    manner = Manner("s", "c", answer, structured=way)
    assert play(manner)[0] == [{}]

    async def pick() -> list[Scores]:
        async with answering(Playing(Manner("s", "c", said('{"ranking": [2]}'), structured=way))) as url:
            return await ChatSelector(manner.chat(url)).score([REQUEST], timeout=5)

    assert asyncio.run(pick()) == [{"id-2": 1.0}]


def test_a_refusal_with_no_time_left_is_the_error() -> None:
    """The tries of one query are all within its time."""

    async def scenario() -> None:
        manner = Manner(
            "s",
            "c",
            in_turn(if_holds("temperature", openai_refusal("temperature is not supported")), then=said(ANSWER)),
        )
        playing = Playing(manner)

        async def slow(request: Any) -> Any:
            await asyncio.sleep(0.2)
            return await playing(request)

        async with answering(slow) as url:
            chat = manner.chat(url)
            with pytest.raises(BackendError):
                await chat.complete("s", "u", timeout=0.3)
            assert chat.refused == {}

    asyncio.run(scenario())


FEW = 16


@pytest.mark.parametrize("api", ["anthropic", "openai"])
@pytest.mark.parametrize(
    ("parameters", "budgeted"),
    [
        ({}, False),
        ({"thinking": {"type": "adaptive"}, "reasoning_effort": "low"}, False),
        ({"reasoning": {"effort": "low"}, "chat_template_kwargs": {"enable_thinking": False}}, False),
        ({"thinking": {"type": "enabled", "budget_tokens": 900}}, True),
        ({"thinking_budget": 900}, True),
        ({"thinking_token_budget": 900}, True),
        ({"reasoning": {"max_tokens": 900}}, True),
        ({"extra_body": {"google": {"thinking_config": {"thinking_budget": 900}}}}, True),
    ],
)
def test_a_control_request_has_few_tokens_but_more_than_a_budget(api: Any, parameters: Any, budgeted: bool) -> None:
    """A server refuses a limit of tokens that is not above the budget of thoughts: all calls would seem to fail."""
    limits = []

    def answer(body: Body) -> Answer:
        if body["messages"][-1]["content"] != CONTROL:
            return 500, {}
        limits.append(body["max_tokens"])
        return (blocks({"type": "text", "text": ANSWER}) if api == "anthropic" else said(ANSWER))(body)

    [outcome], _, _ = play(Manner("s", "c", answer, api=api, parameters=parameters))
    assert isinstance(outcome, BackendError)
    assert limits == [1024 if budgeted else FEW]
    assert outcome.serves_others
