"""Chat servers' manners: what comes of each."""

import asyncio
from typing import Any, get_args

import pytest

from operators.clients.chat.completions import APIS
from operators.clients.http.transport import CONTROL
from operators.clients.rerankers import RerankRequest
from operators.clients.rerankers.listwise import ChatSelector, Orderer
from operators.query.backend_answers import Scores
from schemas.errors import BackendBadResponse, BackendError, BackendUnavailable
from schemas.settings import ChatSettings
from tests.operators.clients.chat.manners import MANNERS
from tests.operators.clients.chat.playing import (
    ANSWER,
    ORDER,
    Answer,
    Body,
    Manner,
    Playing,
    blocks,
    for_texts,
    openai_refusal,
    refusing,
    said,
)
from tests.operators.clients.http.serving import answering

REQUEST = RerankRequest("q", {f"id-{number}": "a text" for number in range(1, 6)}, "docs", "tenant")
SCORES = {f"id-{number}": 1 - place / 5 for place, number in enumerate(ORDER)}
WORDS = {"refused": "status ", "bad answer": "no document's number"}
BREAKS = 5
EACH = pytest.mark.parametrize("manner", MANNERS, ids=[f"{each.name}, {each.outcome}" for each in MANNERS])


def play(manner: Manner, times: int = 1) -> tuple[list[Scores | BackendError], list[Body]]:
    """The orderer's outcomes of so many queries, one after the other, and the requests without the control's."""

    async def scenario() -> tuple[list[Scores | BackendError], list[Body]]:
        server = Playing(manner)
        outcomes: list[Scores | BackendError] = []
        async with answering(server) as url:
            orderer = Orderer(manner.chat(url))
            for _ in range(times):
                try:
                    outcomes += await orderer.score([REQUEST], timeout=5)
                except BackendError as error:
                    outcomes.append(error)
            await orderer.aclose()
        return outcomes, [body for body in server.requests if body["messages"][-1]["content"] != CONTROL]

    return asyncio.run(scenario())


@EACH
def test_each_manner_has_its_outcome(manner: Manner) -> None:
    """Whatever form its thoughts and answers have, a server ranks, or fails with what to do about it."""
    [outcome], requests = play(manner)
    if manner.outcome == "ranked":
        assert outcome == SCORES
    else:
        assert isinstance(outcome, BackendError)
        assert WORDS.get(manner.outcome, manner.outcome) in str(outcome)
    assert len(requests) == 1


@EACH
def test_no_manner_of_a_text_opens_the_breaker(manner: Manner) -> None:
    """However often it comes, none of them is an outage; a parameter that is refused each time is."""
    outcomes, requests = play(manner, 3 * BREAKS)
    if isinstance(outcomes[-1], BackendUnavailable):
        assert manner.outcome == "refused"
    else:
        assert len(requests) == 3 * BREAKS
        assert {type(outcome) for outcome in outcomes} == {type(outcomes[0])}


def test_a_text_that_is_refused_is_told_from_a_parameter() -> None:
    """The control request has the parameters of each other one, and another text."""
    error = openai_refusal("temperature is not supported")
    [refused], _ = play(Manner("s", "c", for_texts(error)))
    [configured], _ = play(Manner("s", "c", refusing("temperature", error)))
    assert isinstance(refused, BackendBadResponse)
    assert isinstance(configured, BackendBadResponse)
    assert (refused.serves_others, configured.serves_others) == (True, False)


def test_each_kind_of_the_settings_has_its_api() -> None:
    """The table's rows are the kinds that can be configured, and each knows each way of structured output."""
    fields = ChatSettings.model_fields
    assert {*APIS, "none"} == {*get_args(fields["kind"].annotation)}
    for api in APIS.values():
        assert {*api.structured} == {*get_args(fields["structured"].annotation)}


def test_parameters_are_set_and_left_out() -> None:
    """The settings' parameters are in every request, in place of ours, and those that are null aren't."""
    parameters: dict[str, Any] = {"temperature": None, "top_p": 0.5, "chat_template_kwargs": {"enable_thinking": False}}
    _, [body] = play(Manner("s", "c", said(ANSWER), parameters=parameters))
    assert "temperature" not in body
    assert body["top_p"] == 0.5
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    _, [body] = play(Manner("s", "c", said(ANSWER), parameters={"max_completion_tokens": 9}))
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


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
def test_a_control_request_is_like_the_others(kind: Any) -> None:
    """It has their limit of tokens, which a server may want above a budget of thoughts, and their form of an answer."""
    seen = []

    def answer(body: Body) -> Answer:
        seen.append({**body, "messages": len(body["messages"])})
        if body["messages"][-1]["content"] != CONTROL:
            return 500, {}
        return (blocks({"type": "text", "text": ANSWER}) if kind == "anthropic" else said(ANSWER))(body)

    parameters = {"thinking": {"type": "enabled", "budget_tokens": 900}}
    [outcome], _ = play(Manner("s", "c", answer, kind=kind, parameters=parameters))
    assert isinstance(outcome, BackendError)
    assert outcome.serves_others
    asked, control = seen
    assert asked == control
