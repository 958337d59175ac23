"""The reranker of a query: the profile's, or the chat model that the recipe lets pick, each for its own queries."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import pytest

from operators.clients.rerankers import Capacity, Reads, Reranker, RerankRequest
from operators.clients.rerankers.listwise import ChatSelector
from operators.query.backend_answers import Scores
from operators.query.in_flight import InFlight
from operators.query.outcome import Results
from operators.query.plan import Planner
from operators.query.result import status_of
from operators.ranking.run import ModelScores
from operators.runtime.dispatcher import Bounds
from operators.runtime.event_loop import EventLoopThread
from operators.runtime.stage import async_stage, sync_stage
from operators.stages.fuse import fuse_legs
from operators.stages.rerank import Reranking, rank
from schemas.errors import BackendError, BackendTimeout, Reason
from schemas.recipes import SHIPPED, Recipe
from schemas.result import Status
from schemas.settings import Profile
from schemas.settings.ranking import PROFILES
from tests.operators.clients.chat.servers import HEADERS, OpenAI, openai
from tests.operators.clients.http.serving import Handler, answering, backend
from tests.operators.ranking.pools import scores, vector
from tests.operators.runtime.flowing import items
from tests.operators.runtime.test_async_stage import looping
from tests.operators.samples import decoder, message

ON = {"enabled": True, "top_k": 3}
PICKING = Recipe.parse("picking", {"stages": ["vector", {"llm_rerank": ON}]})
RERANKED = Recipe.parse("reranked", {"stages": ["vector", "rerank"]})
QUARTER = Recipe.parse("quarter", {"stages": ["vector", {"rerank": {"weight": 0.25}}]})
RECIPES = {each.name: each for each in (PICKING, RERANKED, QUARTER)}
PLANNER = Planner({**PROFILES, "two": Profile(rerank_top=2)}, {**SHIPPED, **RECIPES})
DECODER = decoder(planner=PLANNER)
FUSED = [("a", 0.875), ("b", 0.75), ("c", 0.5), ("d", 0.25)]
TEXTS = {"a": "a train", "b": "a tram", "c": "the cat", "d": "the cat, too"}


class Scripted:
    """A reranker that gives these scores to every request, and keeps the requests."""

    capacity = Capacity()

    def __init__(self, model: str, given: Scores | BackendError, reads: Reads = "text") -> None:
        self.model = model
        self.reads: Reads = reads
        self.requests: list[RerankRequest] = []
        self.longest = 0.0
        self._names_given = given

    async def score(self, requests: Sequence[RerankRequest], *, timeout: float) -> list[Scores | BackendError]:
        """The same for each."""
        self.requests += requests
        self.longest = max(self.longest, timeout)
        return [self._names_given for _ in requests]

    async def aclose(self) -> None:
        """Nothing to release."""


RERANKER = Scripted("cross-encoder", {"a": 0.1, "b": 0.2, "c": 0.9, "d": 0.3})
PICKER = Scripted("chat", {"b": 1.0})
BOUNDS = Bounds(10, 8, 8)


class Seats(NamedTuple):
    """The rerank stage and the pick stage; a stage without a reranker is not built."""

    built: tuple[Reranking, ...]

    @property
    def rerank(self) -> Reranking | Any:
        """The rerank stage."""
        return next((each for each in self.built if not each.picking), None)

    @property
    def pick(self) -> Reranking | Any:
        """The pick stage."""
        return next((each for each in self.built if each.picking), None)

    def of(self, query: InFlight) -> Reranker | None:
        """Which reranks the query's candidates."""
        serving: list[Reranker | None] = [each.reranker for each in self.built if each.top(query)]
        (chosen,) = serving or [None]
        return chosen

    def depth(self, query: InFlight) -> int:
        """The number of candidates that are fetched for it."""
        return max((each.top(query) for each in self.built), default=0)


def seats(reranker: Reranker | None, picker: Reranker | None, bounds: Bounds = BOUNDS) -> Seats:
    """Both stages."""
    first = (Reranking(reranker, bounds),) if reranker is not None else ()
    return Seats((*first, *((Reranking(picker, BOUNDS, picking=True, compares=True),) if picker is not None else ())))


BOTH = seats(RERANKER, PICKER)


def query(offset: int = 0, **event: Any) -> InFlight:
    """A query whose vector leg found a to d, fused and fetched."""
    asked = DECODER(message({"query_id": f"q{offset}", "text": "the cat", "recipe": "picking", **event}, offset))
    asked.outcome.legs = {"vector": vector(*FUSED)}
    asked = fuse_legs(asked)
    asked.outcome.payloads = {name: {"text": text} for name, text in TEXTS.items()}
    return asked


def requested(reranking: Reranking, asked: InFlight) -> RerankRequest:
    """The reranker's request for the query."""
    request = reranking.ask(asked)
    assert request is not None
    return request[1]


def through(asked: list[InFlight], both: Seats, calls: EventLoopThread) -> None:
    """Run the queries through both stages: all of them go on."""
    left = items(
        [asked],
        lambda up: async_stage(
            "pick", sync_stage("rank", async_stage("rerank", up, both.rerank, calls), rank), both.pick, calls
        ),
    )
    assert sorted(each.asked.event.query_id for each in left) == [each.asked.event.query_id for each in asked]


@pytest.mark.parametrize(
    ("event", "both", "chosen", "depth"),
    [
        ({}, BOTH, PICKER, 3),
        ({"profile": "fast"}, BOTH, PICKER, 3),
        ({"profile": "deep"}, BOTH, PICKER, 3),
        ({"overrides": {"llm_rerank": {"enabled": False}}}, BOTH, None, 0),
        ({"overrides": {"llm_rerank": {"top_k": 2}}}, BOTH, PICKER, 2),
        ({"recipe": "reranked"}, BOTH, RERANKER, 50),
        ({"recipe": "reranked", "profile": "two"}, BOTH, RERANKER, 2),
        ({"recipe": "reranked", "profile": "fast"}, BOTH, None, 0),
        ({}, seats(RERANKER, None), None, 0),
        ({"recipe": "reranked"}, seats(None, PICKER), None, 0),
        ({"recipe": "reranked"}, seats(RERANKER, None), RERANKER, 50),
        ({}, seats(None, PICKER), PICKER, 3),
        ({}, seats(None, None), None, 0),
        ({"recipe": "vector"}, BOTH, None, 0),
        ({"rerank": False}, BOTH, None, 0),
        ({"recipe": "reranked", "rerank": False}, BOTH, None, 0),
    ],
)
def test_the_recipe_decides_who_reranks(
    event: dict[str, Any], both: Seats, chosen: Reranker | None, depth: int
) -> None:
    """A recipe that has the chat model select one goes to it, one with the stage `rerank` goes to the profile's
    reranker, any other to none; so many candidates are fetched as the model reads.
    """
    asked = query(**event)
    assert both.of(asked) is chosen
    assert both.depth(asked) == depth


@pytest.mark.parametrize("recipe", ["picking", "reranked"])
def test_nobody_reranks_without_need(recipe: str) -> None:
    """Without a text, without a candidate, and of reflections alone nobody is asked, and nothing is lost."""
    empty = query(recipe=recipe)
    empty.outcome.results = Results([])
    textless = query(recipe=recipe, text=None, vector=[1.0, 0.0, 0.0])
    for asked in (empty, textless, query(recipe=recipe, reflections_only=True)):
        assert BOTH.of(asked) is None
        for stage in BOTH.built:
            assert stage.ask(asked) is None
            assert stage.on_unasked(asked).outcome.degraded == []


def test_each_gets_its_own_queries() -> None:
    """The chat model gets the first `top_k` texts, in their order, and nothing of the reranker's queries."""
    request, whole = requested(BOTH.pick, query()), requested(BOTH.rerank, query(recipe="reranked"))
    assert BOTH.rerank.ask(query()) is BOTH.pick.ask(query(recipe="reranked")) is None
    assert dict(request.documents) == {name: TEXTS[name] for name in "abc"}
    assert list(request.documents) == list("abc")
    assert dict(whole.documents) == TEXTS
    assert request.query == whole.query == "the cat"


@pytest.mark.parametrize(("reranker", "reads"), [(RERANKER, False), (Scripted("late", {}, "tokens"), True)])
def test_tokens_are_read_by_the_reranker_alone(reranker: Reranker, reads: bool) -> None:
    """Token vectors are of use to some rerankers alone; a pick reads texts and is asked without them."""
    both = seats(reranker, PICKER)
    assert both.rerank.reads_tokens is reads
    lost = query()
    lost.lose("embed", Reason.TIMEOUT)
    assert both.pick.ask(lost)
    assert bool(both.rerank.ask(query(recipe="reranked"))) == (reranker is RERANKER)


def test_a_pick_without_texts_is_lost() -> None:
    """A text that couldn't be fetched can't be read: the fused order stands, with the reason."""
    asked = query()
    asked.lose("fetch", Reason.UNAVAILABLE)
    assert BOTH.pick.ask(asked) is None
    assert BOTH.pick.on_unasked(asked).outcome.degraded[-1] == ("rerank", Reason.UNAVAILABLE)
    assert scores(asked.outcome.candidates) == FUSED


@pytest.mark.parametrize("rerank_scores", [{"b": 1.0}, {}])
def test_a_selection_is_said(rerank_scores: Scores) -> None:
    """An answer names the model that was asked, and says that it was reranked, also if the model selected nothing."""
    asked = BOTH.pick.on_result(query(), rerank_scores)
    assert asked.outcome.run.reranked
    assert asked.outcome.rerank_scores == ModelScores(rerank_scores, 3, model="chat")
    assert asked.outcome.degraded == []


def test_a_failed_pick_leaves_the_fused_order() -> None:
    """A lost model moves nothing, and the answer is unranked."""
    asked = BOTH.pick.on_result(query(), BackendTimeout("late"))
    assert scores(asked.outcome.candidates) == FUSED
    assert (asked.outcome.rerank_scores, asked.outcome.run.reranked, status_of(asked.asked, asked.outcome)) == (
        None,
        False,
        Status.UNRANKED,
    )


def test_queries_of_one_batch_go_to_their_own() -> None:
    """Of many queries in one batch each is judged by the one that its recipe names, asked once for it."""
    encoder, chat = Scripted("cross-encoder", {"d": 1.0, "a": 0.0}), Scripted("chat", {"c": 1.0})
    asked = [query(offset, recipe="picking" if offset % 2 else "reranked") for offset in range(8)]
    with looping() as calls:
        through(asked, seats(encoder, chat), calls)
    assert [each.outcome.candidates[0].id for each in asked] == ["d", "c"] * 4
    assert [each.outcome.rerank_scores.model for each in asked if each.outcome.rerank_scores] == [
        "cross-encoder",
        "chat",
    ] * 4
    assert (len(encoder.requests), len(chat.requests)) == (4, 4)


def test_each_has_its_own_time() -> None:
    """The reranker's time-out holds where the chat model has more."""
    encoder, chat = Scripted("cross-encoder", {"a": 1.0}), Scripted("chat", {"a": 1.0})
    with looping() as calls:
        through([query(0), query(1, recipe="reranked")], seats(encoder, chat, Bounds(0.5, 8, 8)), calls)
    assert 0 < encoder.longest <= 0.5 < chat.longest


def test_with_nobody_there_queries_pass() -> None:
    """Every query goes on as it was if there is neither."""
    asked = [query(0), query(1, recipe="reranked")]
    with looping() as calls:
        through(asked, seats(None, None), calls)
    assert [(scores(each.outcome.candidates), each.outcome.degraded, each.outcome.run.reranked) for each in asked] == [
        (FUSED, [], False)
    ] * 2


def served(server: Handler, asked: list[InFlight]) -> None:
    """Run the queries through the stage, picked from by a chat model at this server."""
    with looping() as calls:
        stack = AsyncExitStack()

        async def opened() -> ChatSelector:
            url = await stack.enter_async_context(answering(server))
            return ChatSelector(openai(await stack.enter_async_context(backend(f"{url}/v1", headers=HEADERS[openai]))))

        try:
            through(asked, seats(RERANKER, calls.run(opened(), 10)), calls)
        finally:
            calls.run(stack.aclose(), 10)


@pytest.mark.parametrize(
    ("said", "first", "degraded"),
    [
        ('{"ranking": [2]}', ("b", 0.9375), []),
        ('{"ranking": []}', FUSED[0], []),
        ("I can't say.", FUSED[0], [("rerank", Reason.BAD_RESPONSE)]),
    ],
)
def test_a_real_pick(said: str, first: tuple[str, float], degraded: list[tuple[str, Reason]]) -> None:
    """A chat model's reply over HTTP is the pick: a number, none, or an answer that is no verdict."""
    asked = query()
    served(OpenAI(lambda *_: said), [asked])
    assert scores(asked.outcome.candidates)[0] == first
    assert asked.outcome.degraded == degraded
    assert asked.outcome.run.reranked == (not degraded)


@pytest.mark.parametrize(("rerank_scores", "first"), [({"c": 1.0}, ("c", 0.9375)), ({}, FUSED[0])])
def test_a_profiles_reranker_may_pick_too(rerank_scores: Scores, first: tuple[str, float]) -> None:
    """The pick of a configured chat model moves one candidate and drops nobody."""
    asked = query(recipe="reranked")
    selecting = Reranking(PICKER, BOUNDS, selects=True, compares=True)
    rank(selecting.on_result(asked, rerank_scores))
    assert scores(asked.outcome.candidates)[0] == first
    assert len(asked.outcome.candidates) == len(FUSED)
