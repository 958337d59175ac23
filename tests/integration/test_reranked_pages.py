"""Pages of reranked answers, through the running flow: whatever a reranker drops, they are one long page, cut."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from tests.integration.chat_server import chat_server
from tests.integration.reranked import CHAT, WORDS, Running, serving
from tests.integration.searching import Ask
from tests.operators.clients.rerankers.chatting import honest
from tests.operators.clients.rerankers.servers import Cohere
from tests.tiers import sized

pytest_plugins = ["tests.integration.reranked_running"]

LIMIT, LONG = 3, 10
SELECTED = {"stages": ["score", {"llm_rerank": {"enabled": True}}]}
BLENDED = {"stages": ["score", {"rerank": {"weight": 0.5}}, "composite", "dedupe"]}
SECTIONS: dict[str, Any] = {
    "recipes": {"blended": BLENDED},
    "profiles": {
        "few": {"rerank_top": 8, "over_sample": 3 * LONG, "caches": []},
        "all": {"rerank_top": 50, "caches": []},
    },
}
Calls = Callable[[], int]


class Choosy(Cohere):
    """A server that leaves out what it thinks irrelevant, often all of a part."""

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """The entries with a score of 0.6 or more."""
        answer = super().answer(body)
        kept = [entry for entry in answer["results"] if entry["relevance_score"] >= 0.6]
        return {**answer, "results": kept}


@pytest.fixture(params=["choosy", "order", "pick"])
def reranked(request: pytest.FixtureRequest, running: Running) -> Iterator[tuple[Ask, Calls, tuple[str, ...]]]:
    """The flow with each sort of reranker that drops documents or compares them: how to ask, its calls, its recipes."""
    recipes = ("hybrid", "rrf", "composite", "blended")
    if request.param == "choosy":
        server = Choosy()
        rerank = {"kind": "cohere", "max_batch_chars": 250, "omitted": "drop"}
        with serving(server) as url, running(**SECTIONS, rerank={**rerank, "url": url}) as (_, ask):
            yield ask, lambda: len(server.requests), recipes
        return
    asked: list[str] = []

    def reply(_: str, user: str) -> str:
        asked.append(user)
        return honest(user)

    own = {**SECTIONS, "recipes": {**SECTIONS["recipes"], "selected": SELECTED}}
    rerank = {"kind": "chat", "mode": request.param}
    with chat_server(reply) as url, running(**own, chat={**CHAT, "url": url}, rerank=rerank) as (_, ask):
        yield ask, lambda: len(asked), (*recipes, "selected")


def pages(ask: Ask, event: dict[str, Any], calls: Calls) -> list[dict[str, Any]]:
    """All pages of the query, each of which has a result, and of which the first alone calls the model."""
    found = [ask({**event, "limit": LIMIT})]
    made = calls()
    while found[-1]["has_more"]:
        assert found[-1]["next_cursor"] is not None
        found.append(ask({**event, "limit": LIMIT, "cursor": found[-1]["next_cursor"]}))
        assert found[-1]["results"]
    assert found[-1]["next_cursor"] is None
    assert calls() == made
    return found


def test_pages_are_one_long_page_whatever_is_dropped(reranked: tuple[Ask, Calls, tuple[str, ...]]) -> None:
    """By every recipe with a model, on random pools: pages are disjoint, in the long page's order, with its scores.
    Each leads to one with results, `total` is no more than they hold, and the model was asked for the first page alone.
    """
    ask, calls, recipes = reranked
    random, totals = Random(7), set()
    for number in range(sized(6, nightly=12)):
        text = " ".join(random.sample(WORDS[:16], random.randint(1, 3)))
        event = {"namespace": "green", "text": text, "profile": random.choice(["few", "all"])}
        event["recipe"] = recipes[number % len(recipes)]
        cut = pages(ask, event, calls)
        long = ask({**event, "limit": LONG})
        assert all(page["status"] in ("ok", "unranked") for page in (*cut, long)), event
        if any(page["status"] == "unranked" for page in (*cut, long)):
            # A cross-encoder that finds nothing relevant at all.
            assert {page["status"] for page in (*cut, long)} == {"unranked"}, event
        hits = [(hit["id"], hit["score"]) for page in cut for hit in page["results"]]
        assert hits[:LONG] == [(hit["id"], hit["score"]) for hit in long["results"]], event
        assert len({id_ for id_, _ in hits}) == len(hits) >= long["total"], event
        assert {page["total"] for page in cut} == {long["total"]}, event
        assert long["has_more"] == (len(hits) > LONG), event
        assert [score for _, score in hits] == sorted((score for _, score in hits), reverse=True), event
        totals.add(len(hits))
    assert len(totals) > 1
