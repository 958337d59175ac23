"""Who reranks: the profile's reranker or the chat model that the recipe lets pick, each asked for its own queries."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest
from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink, TestingSource, run_main

from operators.clients.rerankers import Reads, Reranker, RerankRequest, Scores
from operators.clients.rerankers.picker import Picker
from operators.dispatcher import Bounds, Finished
from operators.event_loop import EventLoopThread
from operators.fuse import fused
from operators.inflight import InFlight
from operators.ranking.candidate import Candidate
from operators.recipes import Planner
from operators.rerank import Rerankers, judged, plan, rerank, reranked
from operators.result import status_of
from operators.stage import Batch
from schemas.errors import BackendError, BackendTimeout, Reason
from schemas.recipes import SHIPPED, Recipe
from schemas.result import Status
from schemas.settings import Profile
from schemas.settings.ranking import PROFILES
from tests.operators.clients.chat_models.servers import HEADERS, OpenAI, openai
from tests.operators.clients.serving import Handler, answering, backend
from tests.operators.ranking.pools import scores, vector
from tests.operators.samples import decoder, message
from tests.operators.test_async_io import looping

ON = {"enabled": True, "top_k": 3}
PICKING = Recipe.parse("picking", {"stages": ["vector", {"llm_rerank": ON}]})
PLANNER = Planner({**PROFILES, "two": Profile(rerank_top=2)}, {**SHIPPED, "picking": PICKING})
DECODER = decoder(planner=PLANNER)
FUSED = [("a", 0.875), ("b", 0.75), ("c", 0.5), ("d", 0.25)]
TEXTS = {"a": "a train", "b": "a tram", "c": "the cat", "d": "the cat, too"}


class Scripted:
    """A reranker that gives these scores to every request, and keeps the requests."""

    def __init__(self, model: str, given: Scores | BackendError, reads: Reads = "text") -> None:
        self.model = model
        self.reads: Reads = reads
        self.requests: list[RerankRequest] = []
        self.longest = 0.0
        self._given = given

    async def rerank(self, requests: Sequence[RerankRequest], *, timeout: float) -> list[Scores | BackendError]:
        """The same for each."""
        self.requests += requests
        self.longest = max(self.longest, timeout)
        return [self._given for _ in requests]

    async def aclose(self) -> None:
        """Nothing to release."""


RERANKER = Scripted("cross-encoder", {"a": 0.1, "b": 0.2, "c": 0.9, "d": 0.3})
PICKER = Scripted("chat", {"b": 1.0})
BOTH = Rerankers(RERANKER, PICKER, 1.0)


def query(offset: int = 0, **event: Any) -> InFlight:
    """A query whose vector leg found a to d, fused and fetched."""
    asked = DECODER(message({"query_id": f"q{offset}", "text": "the cat", "recipe": "picking", **event}, offset))
    asked.legs = {"vector": vector(*FUSED)}
    asked = fused(asked)
    asked.payloads = {name: {"text": text} for name, text in TEXTS.items()}
    return asked


def by_scores(asked: InFlight, verdict: Scores, weight: float) -> list[Candidate]:
    """The query's candidates in the order that the scores give those whom its plan has reranked."""
    return judged(asked, asked.candidates, verdict, asked.plan.reranks(asked.event), weight)


def through(asked: list[InFlight], rerankers: Rerankers, calls: EventLoopThread) -> None:
    """Run the queries through the stage: all of them go on."""
    on: list[Batch] = []
    flow = Dataflow("reranking")
    up = op.input("in", flow, TestingSource([asked]))
    op.output("on", rerank("rerank", up, rerankers, calls, Bounds(10, 8, 8)).on, TestingSink(on))
    run_main(flow)
    assert sorted(each.event.query_id for batch in on for each in batch) == [each.event.query_id for each in asked]


@pytest.mark.parametrize(
    ("event", "rerankers", "chosen", "depth"),
    [
        ({}, BOTH, PICKER, 3),
        ({"profile": "fast"}, BOTH, PICKER, 3),
        ({"profile": "deep"}, BOTH, PICKER, 3),
        ({"overrides": {"llm_rerank": {"enabled": False}}}, BOTH, RERANKER, 50),
        ({"overrides": {"llm_rerank": {"top_k": 2}}}, BOTH, PICKER, 2),
        ({"recipe": "vector"}, BOTH, RERANKER, 50),
        ({"recipe": "vector", "profile": "two"}, BOTH, RERANKER, 2),
        ({"recipe": "vector", "profile": "fast"}, BOTH, None, 0),
        ({}, Rerankers(RERANKER, None, 1.0), None, 0),
        ({"recipe": "vector"}, Rerankers(None, PICKER, 1.0), None, 0),
        ({"recipe": "vector"}, Rerankers(RERANKER, None, 1.0), RERANKER, 50),
        ({}, Rerankers(None, PICKER, 1.0), PICKER, 3),
        ({}, Rerankers(None, None, 1.0), None, 0),
        ({"rerank": False}, BOTH, None, 0),
        ({"recipe": "vector", "rerank": False}, BOTH, None, 0),
    ],
)
def test_the_recipe_decides_who_reranks(
    event: dict[str, Any], rerankers: Rerankers, chosen: Reranker | None, depth: int
) -> None:
    """A recipe that has the chat model pick goes to it and to nobody else, any other to the profile's reranker; so many
    candidates are fetched as the one that there is will read.
    """
    asked = query(**event)
    assert rerankers.of(asked) is chosen
    assert rerankers.depth(asked) == depth


@pytest.mark.parametrize("recipe", ["picking", "vector"])
def test_nobody_reranks_without_need(recipe: str) -> None:
    """Without a text, without a candidate, and of reflections alone nobody is asked, and nothing is lost."""
    empty = query(recipe=recipe)
    empty.candidates = []
    textless = query(recipe=recipe, text=None, vector=[1.0, 0.0, 0.0])
    for asked in (empty, textless, query(recipe=recipe, reflections_only=True)):
        assert BOTH.of(asked) is None
        assert plan(BOTH)(asked) == {}
        assert reranked(Finished(asked, {}), BOTH).degraded == []


def test_each_has_a_lane_of_its_own() -> None:
    """The chat model gets the first `top_k` texts, in their order, and doesn't share calls with the reranker."""
    ((lane, request),) = plan(BOTH)(query()).items()
    ((other, whole),) = plan(BOTH)(query(recipe="vector")).items()
    assert lane != other
    assert dict(request.documents) == {name: TEXTS[name] for name in "abc"}
    assert list(request.documents) == list("abc")
    assert dict(whole.documents) == TEXTS
    assert request.query == whole.query == "the cat"


@pytest.mark.parametrize(
    ("reranker", "reads"), [(None, False), (RERANKER, False), (Scripted("late", {}, "tokens"), True)]
)
def test_tokens_are_read_by_the_reranker_alone(reranker: Reranker | None, reads: bool) -> None:
    """Whether token vectors are of use depends on the reranker; a pick reads texts and is asked without them."""
    rerankers = Rerankers(reranker, PICKER, 1.0)
    assert rerankers.reads_tokens is reads
    lost = query()
    lost.lose("embed", Reason.TIMEOUT)
    assert plan(rerankers)(lost)
    assert bool(plan(rerankers)(query(recipe="vector"))) == (reranker is RERANKER)


def test_a_pick_without_texts_is_lost() -> None:
    """What couldn't be fetched can't be read: the fused order stands, with the reason."""
    asked = query()
    asked.lose("fetch", Reason.UNAVAILABLE)
    assert plan(BOTH)(asked) == {}
    assert reranked(Finished(asked, {}), BOTH).degraded[-1] == ("rerank", Reason.UNAVAILABLE)
    assert scores(asked.candidates) == FUSED


@pytest.mark.parametrize(
    ("event", "verdict", "expected"),
    [
        # The smallest distance is 0.125.
        ({}, {"a": 1.0}, [("a", 0.9375), *FUSED[1:]]),
        ({}, {"c": 1.0}, [("c", 0.9375), FUSED[0], FUSED[1], FUSED[3]]),
        ({}, {"b": 0.5, "c": 1.0}, [("c", 0.9375), FUSED[0], FUSED[1], FUSED[3]]),
        ({}, {"d": 1.0}, FUSED),
        ({}, {"elsewhere": 1.0}, FUSED),
        ({}, {}, FUSED),
        (
            {"recipe": "vector", "profile": "two"},
            {"a": 1.0, "b": 3.0},
            [("b", 1.0), ("a", 0.0), ("c", 0.0), ("d", -1.0)],
        ),
        ({"recipe": "vector", "profile": "two"}, {"b": 3.0}, [("b", 1.0), ("c", 0.0), ("d", -1.0)]),
        ({"recipe": "vector"}, {"d": 1.0}, [("d", 1.0)]),
    ],
)
def test_a_pick_moves_one_and_a_reranker_all(
    event: dict[str, Any], verdict: Scores, expected: list[tuple[str, float]]
) -> None:
    """By hand: of a pick only the picked one moves, if it was among those that were read; what a reranker leaves out is
    gone, and what it didn't read follows.
    """
    assert scores(by_scores(query(**event), verdict, 1.0)) == expected


def test_the_weight_is_the_rerankers_say() -> None:
    """By hand, at 0.25: three quarters of the fused score, which min-max makes 1 and 0; a pick knows no weight."""
    two: dict[str, Any] = {"recipe": "vector", "profile": "two"}
    merged = scores(by_scores(query(**two), {"a": 0.0, "b": 1.0}, 0.25))
    assert merged[:2] == [("a", 0.75), ("b", 0.25)]
    assert scores(by_scores(query(), {"b": 1.0}, 0.25))[0] == ("b", 0.9375)


@pytest.mark.parametrize(("event", "step"), [({}, "llm_rerank"), ({"recipe": "vector"}, "rerank")])
def test_a_verdict_is_explained(event: dict[str, Any], step: str) -> None:
    """The last step of who moved tells whose word it was, and ends in the score."""
    asked = query(explain=True, **event)
    first = by_scores(asked, {"b": 1.0, "a": 0.0}, 1.0)[0]
    assert asked.ranked is not None
    assert asked.ranked.trail is not None
    told = asked.ranked.trail.explanations["b"].stages[-1]
    assert (first.id, told["stage"], told["output"]) == ("b", step, first.score)


@pytest.mark.parametrize("verdict", [{"b": 1.0}, {}])
def test_a_verdict_is_said(verdict: Scores) -> None:
    """An answer for which the model was asked says so and names it, also where it found none relevant."""
    asked = reranked(Finished(query(), {"pick": verdict}), BOTH)
    assert asked.reranked
    assert asked.verdict == ("chat", verdict)
    assert asked.degraded == []


def test_a_failed_pick_leaves_the_fused_order() -> None:
    """A lost model moves nothing, and the answer is unranked."""
    asked = reranked(Finished(query(), {"pick": BackendTimeout("late")}), BOTH)
    assert scores(asked.candidates) == FUSED
    assert (asked.verdict, asked.reranked, status_of(asked)) == (None, False, Status.UNRANKED)


def test_queries_of_one_batch_go_to_their_own() -> None:
    """Of many queries in one batch each is judged by the one that its recipe names, asked once for it."""
    encoder, chat = Scripted("cross-encoder", {"d": 1.0, "a": 0.0}), Scripted("chat", {"c": 1.0})
    asked = [query(offset, recipe="picking" if offset % 2 else "vector") for offset in range(8)]
    with looping() as calls:
        through(asked, Rerankers(encoder, chat, 1.0), calls)
    assert [each.candidates[0].id for each in asked] == ["d", "c"] * 4
    assert [each.verdict.model for each in asked if each.verdict] == ["cross-encoder", "chat"] * 4
    assert (len(encoder.requests), len(chat.requests)) == (4, 4)


def test_each_has_its_own_time() -> None:
    """The reranker's time-out holds where the chat model has more: the stage's bounds are the longer ones."""
    encoder, chat = Scripted("cross-encoder", {"a": 1.0}), Scripted("chat", {"a": 1.0})
    with looping() as calls:
        through([query(0), query(1, recipe="vector")], Rerankers(encoder, chat, 1.0, timeout=0.5), calls)
    assert 0 < encoder.longest <= 0.5 < chat.longest


def test_with_nobody_there_queries_pass() -> None:
    """Where there is neither, every query goes on as it was."""
    asked = [query(0), query(1, recipe="vector")]
    with looping() as calls:
        through(asked, Rerankers(None, None, 1.0), calls)
    assert [(scores(each.candidates), each.degraded, each.reranked) for each in asked] == [(FUSED, [], False)] * 2


def served(server: Handler, asked: list[InFlight]) -> None:
    """Run the queries through the stage, picked from by a chat model at this server."""
    with looping() as calls:
        stack = AsyncExitStack()

        async def opened() -> Picker:
            url = await stack.enter_async_context(answering(server))
            return Picker(openai(await stack.enter_async_context(backend(f"{url}/v1", headers=HEADERS[openai]))), 4)

        try:
            through(asked, Rerankers(RERANKER, calls.run(opened(), 10), 1.0), calls)
        finally:
            calls.run(stack.aclose(), 10)


@pytest.mark.parametrize(
    ("said", "first", "degraded"),
    [
        ("2", ("b", 0.9375), []),
        ("none", FUSED[0], []),
        ("I can't say.", FUSED[0], [("rerank", Reason.BAD_RESPONSE)]),
    ],
)
def test_a_real_pick(said: str, first: tuple[str, float], degraded: list[tuple[str, Reason]]) -> None:
    """What a chat model says over HTTP is the pick: a number, none, or an answer that is no verdict."""
    asked = query()
    served(OpenAI(lambda *_: said), [asked])
    assert scores(asked.candidates)[0] == first
    assert asked.degraded == degraded
    assert asked.reranked is not bool(degraded)
