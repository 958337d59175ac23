"""Anchor: who reads the time in a query, what stands in for a lost chat model, and that nobody is asked in vain."""

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import pytest
from aiohttp import web

from operators.clients.chat.completions import ChatModel
from operators.query.in_flight import InFlight
from operators.query.plan import Planner
from operators.query.result import status_of
from operators.runtime.dispatcher import Bounds
from operators.runtime.event_loop import EventLoopThread
from operators.stages.temporal_expression import ByChatModel, temporal_expression
from operators.text.dates import TemporalExpression
from schemas.errors import Reason
from schemas.recipes import SHIPPED, Recipe
from schemas.result import Status
from schemas.settings.ranking import PROFILES
from tests.operators.clients.chat.servers import HEADERS, OpenAI, always, openai, openai_answer
from tests.operators.clients.http.serving import Handler, answering, backend, json_response
from tests.operators.runtime.flowing import items
from tests.operators.runtime.test_async_stage import looping
from tests.operators.samples import decoder, message

NOW = "2024-03-01T12:00:00Z"
WEEK = TemporalExpression(7, 3)
SPRING = TemporalExpression(366, 5)


def targeting(**parameters: Any) -> Recipe:
    """A recipe that targets the time of the query."""
    return Recipe.parse("targeting", {"stages": ["score", {"temporal": parameters}]})


RECIPES = {
    **SHIPPED,
    "told": targeting(extractor="chat"),
    "unboosted": targeting(extractor="chat", boost=0),
    "ruled": targeting(extractor="rules"),
}
DECODER = decoder(planner=Planner(PROFILES, RECIPES))


def query(offset: int = 0, **event: Any) -> InFlight:
    """A query of a week ago, about NOW, by the recipe that asks the chat model."""
    asked: dict[str, Any] = {"text": "the vet a week ago", "recipe": "told", "now": NOW}
    return DECODER(message({"query_id": f"q{offset}", **asked, **event}, offset))


@contextmanager
def chatting(server: Handler) -> Iterator[tuple[EventLoopThread, ChatModel]]:
    """A thread for calls, and a client of this chat server on it."""
    with looping() as calls:
        stack = AsyncExitStack()

        async def opened() -> ChatModel:
            url = await stack.enter_async_context(answering(server))
            return openai(await stack.enter_async_context(backend(f"{url}/v1", headers=HEADERS[openai])))

        chat = calls.run(opened(), 10)
        try:
            yield calls, chat
        finally:
            calls.run(stack.aclose(), 10)


def through(asked: list[InFlight], calls: EventLoopThread, chat: ChatModel | None, timeout: float = 10) -> None:
    """Run the queries through the stage: all of them go on."""
    part = ByChatModel(chat, Bounds(timeout, max_batch=1, max_concurrency=4), "openai") if chat is not None else None
    left = items([asked], lambda up: temporal_expression("t", up, part, calls))
    assert sorted(each.asked.event.query_id for each in left) == [each.asked.event.query_id for each in asked]


def extracted(server: Handler, asked: InFlight, timeout: float = 10) -> InFlight:
    """One query after the stage."""
    with chatting(server) as (calls, chat):
        through([asked], calls, chat, timeout)
    return asked


def spring(_: str, user: str) -> str:
    """A model that knows German, and no other time."""
    known = {"days": 366, "tolerance": 5} if "Frühling" in user else {"days": None, "tolerance": None}
    return json.dumps(known)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"recipe": "composite"}, WEEK),
        ({"recipe": "composite", "rerank": False}, WEEK),
        ({"recipe": "ruled"}, WEEK),
        ({"recipe": "composite", "text": "in March 2023"}, TemporalExpression(352, 15)),
        ({"recipe": "composite", "text": "the vet"}, None),
        ({"recipe": "composite", "text": None, "vector": [1.0, 0.0, 0.0]}, None),
        ({"recipe": "composite", "overrides": {"temporal": {"boost": 0}}}, None),
        ({"recipe": "hybrid"}, None),
    ],
)
def test_rules_read_the_time_where_the_recipe_targets_one(
    event: dict[str, Any], expected: TemporalExpression | None
) -> None:
    """Without a chat model the rules read the text at the query's now; a recipe that targets no time leaves it be."""
    asked = query(**event)
    with looping() as calls:
        through([asked], calls, None)
    assert (asked.retrieval.temporal_expression, asked.outcome.degraded) == (expected, [])


@pytest.mark.parametrize(
    ("text", "expected"), [("vet, letzten Frühling", SPRING), ("the vet a week ago", None), ("the vet", None)]
)
def test_the_models_word_counts(text: str, expected: TemporalExpression | None) -> None:
    """The model's reading is the anchor, also where it reads none and the rules would; nothing is lost."""
    asked = extracted(OpenAI(spring), query(text=text))
    assert (asked.retrieval.temporal_expression, asked.outcome.degraded) == (expected, [])


def test_the_model_is_told_the_querys_now() -> None:
    """Today is the day of the query's clock, not of this machine's."""
    server = OpenAI(spring)
    extracted(server, query())
    (request,) = server.requests
    assert "Friday, 2024-03-01" in request["messages"][1]["content"]


def test_each_query_of_a_batch_has_its_own() -> None:
    """Queries are asked about one by one, and each gets the answer to its own text."""
    server = OpenAI(lambda _, user: json.dumps({"days": int(json.loads(user.splitlines()[-1])), "tolerance": 2}))
    asked = [query(offset, text=str(offset)) for offset in range(9)]
    with chatting(server) as (calls, chat):
        through(asked, calls, chat)
    assert [each.retrieval.temporal_expression for each in asked] == [
        TemporalExpression(offset, 2) for offset in range(9)
    ]
    assert len(server.requests) == 9
    assert server.most_at_once <= 4


async def hanging(_: web.Request) -> web.Response:
    """A server that takes its time."""
    await asyncio.sleep(60)
    return json_response(openai_answer("null"))


@pytest.mark.parametrize(
    ("server", "timeout", "reason"),
    [
        pytest.param(always({}, 503), 10, Reason.UNAVAILABLE, id="overloaded"),
        pytest.param(always({}, 401), 10, Reason.UNAUTHORIZED, id="refused"),
        pytest.param(always(openai_answer("last week, I think")), 10, Reason.BAD_RESPONSE, id="no anchor in it"),
        pytest.param(
            always(openai_answer('{"days": -5, "tolerance": 1}')), 10, Reason.BAD_RESPONSE, id="out of bounds"
        ),
        pytest.param(hanging, 0.1, Reason.TIMEOUT, id="late"),
    ],
)
@pytest.mark.parametrize(("text", "expected"), [("the vet a week ago", WEEK), ("the vet", None)])
def test_the_rules_stand_in_for_a_lost_model(
    server: Handler, timeout: float, reason: Reason, text: str, expected: TemporalExpression | None
) -> None:
    """The rules' anchor stands if the model fails, and the answer is partial, with the reason."""
    asked = extracted(server, query(text=text), timeout)
    assert (asked.retrieval.temporal_expression, asked.outcome.degraded) == (
        expected,
        [("temporal_expression", reason)],
    )
    assert status_of(asked.asked, asked.outcome) is Status.PARTIAL


def test_the_rules_stand_in_where_time_is_over() -> None:
    """A query whose deadline has passed isn't asked about."""
    server = OpenAI(spring)
    late = query()
    late.deadline = time.monotonic() - 0.001
    extracted(server, late)
    assert (late.retrieval.temporal_expression, late.outcome.degraded, server.requests) == (
        WEEK,
        [("temporal_expression", Reason.DEADLINE)],
        [],
    )


NEEDLESS: Mapping[str, tuple[dict[str, Any], TemporalExpression | None]] = {
    "no time targeted": ({"recipe": "hybrid"}, None),
    "by rules": ({"recipe": "ruled"}, WEEK),
    "no boost": ({"recipe": "unboosted"}, None),
    "no boost by override": ({"overrides": {"temporal": {"boost": -1.0}}}, None),
    "rules by override": ({"overrides": {"temporal": {"extractor": "rules"}}}, WEEK),
    "no text": ({"text": None, "vector": [1.0, 0.0, 0.0]}, None),
}


@pytest.mark.parametrize(("event", "expected"), NEEDLESS.values(), ids=NEEDLESS)
def test_the_model_is_not_asked_without_need(event: dict[str, Any], expected: TemporalExpression | None) -> None:
    """A time that no stage would use is not asked for: not one request, and nothing that could be lost."""
    server = OpenAI(spring)
    asked = extracted(server, query(**event))
    assert server.requests == []
    assert (asked.retrieval.temporal_expression, asked.outcome.degraded) == (expected, [])


def test_the_model_is_not_asked_for_reflections_alone() -> None:
    """Reflections are ranked by cosine, whatever stages the recipe has: no request, and nothing that could be lost."""
    server = OpenAI(spring)
    asked = extracted(server, query(reflections_only=True))
    assert (server.requests, asked.outcome.degraded) == ([], [])


def test_skipping_rerankers_keeps_the_time() -> None:
    """`rerank: false` is about rerankers: the model is asked for the time all the same."""
    asked = extracted(OpenAI(spring), query(text="letzten Frühling", rerank=False))
    assert asked.retrieval.temporal_expression == SPRING
