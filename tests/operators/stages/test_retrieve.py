"""Retrieve and fetch: what is asked of Qdrant for a query, and what its answers do to it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import httpx
import numpy as np
import orjson
import pytest

from operators.clients.qdrant.requests import UNLIMITED
from operators.query.backend_answers import Embedding, Hits
from operators.query.in_flight import InFlight
from operators.query.outcome import Results
from operators.query.search import Found, QueryBatch, Search, nearest
from operators.ranking.candidate import Candidate
from operators.runtime.batching.policy import Waiting
from operators.runtime.dispatcher import Bounds
from operators.stages.fetch import Fetching
from operators.stages.fuse import rank_hits, take_over
from operators.stages.leg import SearchLeg, Together
from operators.text.expression import parse
from operators.text.terms import QueryWord, SparseVector, trigrams_of_query
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, BackendUnavailable, Reason
from schemas.result import LegStatus
from tests.operators.clients.qdrant.transports import Faulty, qdrant
from tests.operators.samples import body, capable, query, searches

VECTOR, KEYWORD, LEARNED = "vector", "keyword", "learned"
OWN = {"namespace": "public"}
FOUND = Hits(["a", "b"], [0.9, 0.5], [OWN, OWN])
SEARCHES = searches()
WEIGHED = {"recipe": "rrf", "overrides": {"rrf": {"weights": {"learned": 2.0}}}}
NOBODY: Any = None
FETCHING = Fetching(NOBODY, lambda _: 3, Bounds(1, 1, 1))


def embedded(**event: Any) -> InFlight:
    """A query with a vector and terms."""
    asked = query(**event)
    asked.retrieval.embedding = Embedding(np.ones(3, np.float32))
    asked.retrieval.terms = SparseVector([7], [1.0])
    return asked


def after(asked: InFlight, found: Mapping[str, Found | BackendError]) -> InFlight:
    """The query once its legs have given this."""
    asked.retrieval.found = dict(found)
    return rank_hits(take_over(asked))


def bodies(**event: Any) -> dict[str, Mapping[str, Any]]:
    """The request of each leg for such a query."""
    return {leg: body(search) for leg, search in SEARCHES.write(embedded(**event)).items()}


def test_every_search_stays_in_the_namespace() -> None:
    """Both legs, and the frequencies of the terms, see the query's namespace and nothing else."""
    searches = bodies(namespace="acme")
    tenant = {"must": [{"key": "namespace", "match": {"value": "acme"}}]}
    assert searches.keys() == {VECTOR, KEYWORD}
    assert [body["filter"] for body in searches.values()] == [tenant, tenant]
    assert searches[KEYWORD]["params"] == {"idf": {"corpus": tenant}}


def test_a_page_is_never_larger_than_what_is_asked() -> None:
    """A leg is asked for the over-sample, or the page if that is more."""
    assert {body["limit"] for body in bodies(limit=5).values()} == {100}
    assert {body["limit"] for body in bodies(limit=150).values()} == {150}


def test_the_querys_own_vector_goes_first() -> None:
    """A vector in the event is searched with as it is; a zero vector isn't searched with."""
    assert bodies(vector=[0.5, 0.0, 0.0])[VECTOR]["query"] == [0.5, 0.0, 0.0]
    assert VECTOR not in SEARCHES.write(embedded(vector=[0.0, 0.0, 0.0]))


def test_an_embedding_without_a_direction_is_not_searched_with() -> None:
    """A text without a token is searched for by the other legs, and nothing is lost."""
    asked = embedded()
    asked.retrieval.embedding = Embedding(np.zeros(3, np.float32))
    assert VECTOR not in SEARCHES.write(asked)
    assert after(asked, {KEYWORD: Found(FOUND)}).outcome.degraded == []


def test_a_lost_leg_is_not_an_empty_one() -> None:
    """A leg that failed says why; one that found nothing is ok and has no candidates."""
    asked = after(embedded(), {VECTOR: BackendTimeout("late"), KEYWORD: Found(Hits([], [], []))})
    assert (asked.outcome.legs["vector"].status, asked.outcome.legs["vector"].reason) == (
        LegStatus.TIMEOUT,
        Reason.TIMEOUT,
    )
    assert (asked.outcome.legs["keyword"].status, asked.outcome.legs["keyword"].reason) == (LegStatus.OK, None)
    assert asked.outcome.degraded == [("vector", Reason.TIMEOUT)]
    assert not asked.answered


def test_what_a_leg_says_of_its_hits_is_a_warning() -> None:
    """The caller hears it."""
    asked = after(embedded(), {KEYWORD: Found(FOUND, warnings=("not all",))})
    assert asked.outcome.warnings == ["not all"]


async def test_lost_endings_lose_their_own_search_alone() -> None:
    """A phrase that ends in a prefix isn't found if Qdrant counts no words, and other queries' searches are."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/facet"):
            return httpx.Response(500)
        answers: list[Any] = [{"points": []} for _ in orjson.loads(request.content)["searches"]]
        return httpx.Response(200, content=orjson.dumps({"result": answers}))

    open_ended = embedded()
    open_ended.retrieval.parsed = parse('"deep lea"*', {})
    client = qdrant(Faulty(answer))
    client.limits["documents"] = UNLIMITED
    leg = SearchLeg("keyword", client, Bounds(1, 9, 1))
    asked = [embedded(), open_ended, embedded()]
    for each in asked:
        SEARCHES(each)
    requests = [request for each in asked if (request := leg.ask(each)) is not None]
    (key, first), (apart, counted), (same, last) = requests
    assert key == same != apart
    before, behind = await leg.call(key, [first, last], 5.0)
    [lost] = await leg.call(apart, [counted], 5.0)
    assert before == behind == Found(Hits([], [], [], []))
    assert isinstance(lost, BackendUnavailable)


def test_a_search_that_counts_first_is_in_no_other_searchs_call() -> None:
    """Each is a call by itself, made for its namespace; the others are batched as ever."""
    together = Together(3)
    search = Search(lambda: nearest([{"query": []}]), query().trace)
    apart = replace(search, alone="red")
    assert [together.tenant(each) for each in (search, apart)] == [None, "red"]
    for waiting, taken in (([search] * 5, 3), ([search] * 2, 2), ([apart] * 5, 1)):
        assert together.select(Waiting(each, 0, 1) for each in waiting) == [1] * taken


def test_all_legs_lost_is_failed() -> None:
    """With every leg lost the query is answered at once, as failed."""
    asked = after(embedded(), {VECTOR: BackendUnavailable("down"), KEYWORD: BackendBadResponse("what?")})
    assert asked.outcome.failed
    assert asked.answered


def test_a_lost_embedding_and_no_terms_is_failed() -> None:
    """A query is failed, not empty, if meaning couldn't be searched and there were no words to search by."""
    asked = query(text="the")
    asked.lose("embed", Reason.TIMEOUT)
    after(asked, {})
    assert asked.outcome.failed
    assert asked.outcome.legs["vector"].reason is Reason.TIMEOUT
    assert asked.outcome.legs["keyword"].reason is Reason.NO_TERMS


def test_a_document_deleted_meanwhile_is_no_candidate() -> None:
    """A hit that the fetch doesn't find is gone; one that wasn't fetched stays behind it."""
    asked = embedded()
    asked.outcome.results = Results([Candidate(name, 0.5) for name in "abcd"])
    FETCHING.on_result(asked, {"a": {"text": "x"} | OWN, "c": {"text": "y"} | OWN})
    assert [candidate.id for candidate in asked.outcome.candidates] == ["a", "c", "d"]
    assert asked.outcome.degraded == []


def test_a_failed_fetch_leaves_the_candidates() -> None:
    """Without texts the order is still an answer, and says what it lacks."""
    asked = embedded()
    asked.outcome.results = Results([Candidate("a", 0.5)])
    FETCHING.on_result(asked, BackendUnavailable("down"))
    assert [candidate.id for candidate in asked.outcome.candidates] == ["a"]
    assert asked.outcome.degraded == [("fetch", Reason.UNAVAILABLE)]


def test_a_collection_without_context_answers_by_the_other_legs() -> None:
    """The context legs of the recipe are skipped, with a reason and one warning, and nothing is lost."""
    asked = embedded(recipe="conversation")
    done = after(asked, {VECTOR: Found(FOUND), KEYWORD: Found(FOUND)})
    reasons = {name: (leg.status, leg.reason) for name, leg in done.outcome.legs.items()}
    assert reasons["vector_context"] == reasons["keyword_context"] == (LegStatus.SKIPPED, Reason.NO_CONTEXT)
    assert [said.split(":")[0] for said in done.outcome.warnings] == ["no_context"]
    assert not done.outcome.degraded


def test_recipes_without_context_say_nothing_of_it() -> None:
    """Their legs are listed as before."""
    done = after(embedded(), {VECTOR: Found(FOUND), KEYWORD: Found(FOUND)})
    assert set(done.outcome.legs) == {"vector", "keyword"}
    assert not done.outcome.warnings


def learned(encoding: SparseVector | None = None, *, able: bool = True, **event: Any) -> InFlight:
    """A query whose recipe gives weight to the leg `learned`, with its encoding; `able`: the collection has it."""
    asked = embedded(**{**WEIGHED, **event})
    asked.retrieval.capabilities = capable(learned=able)
    asked.retrieval.encoding = encoding
    return asked


ENCODED = SparseVector([3, 70], [0.5, 1.25])


def test_the_learned_leg_searches_as_its_encoder_weighed() -> None:
    """By the configured vector, in what the query may see, without any count of documents."""
    asked = learned(ENCODED, namespace="acme", filters=[{"field": "year", "op": "eq", "value": 7}])
    written = SEARCHES.write(asked)
    asks = next(written[LEARNED].start())
    assert isinstance(asks, QueryBatch)
    [search] = asks.bodies
    assert search["query"] == {"indices": [3, 70], "values": [0.5, 1.25]}
    assert search["using"] == "splade"
    assert search["filter"] == body(written[VECTOR])["filter"]
    assert search.keys() == {"query", "using", "filter", "limit", "with_payload"}


@pytest.mark.parametrize(
    ("asked", "lost", "reason"),
    [
        (learned(able=False), None, Reason.NO_SPARSE_VECTOR),
        (learned(SparseVector([], [])), None, Reason.NO_TERMS),
        (learned(profile="fast"), None, Reason.PROFILE),
        (learned(), Reason.REFUSED, Reason.REFUSED),
    ],
)
def test_a_learned_leg_that_is_not_asked_says_why(asked: InFlight, lost: Reason | None, reason: Reason) -> None:
    """Nothing else is lost; that a collection has no such vector is a warning, too, for the recipe asks for it."""
    if lost is not None:
        asked.lose("encode", lost)
    assert LEARNED not in SEARCHES.write(asked)
    done = after(asked, {VECTOR: Found(FOUND), KEYWORD: Found(FOUND)})
    leg = done.outcome.legs["learned"]
    assert (leg.status, leg.reason, done.answered) == (LegStatus.SKIPPED, reason, False)
    assert done.outcome.degraded == ([("encode", lost)] if lost is not None else [])
    warned = [said.split(":")[0] for said in done.outcome.warnings]
    assert warned == (["no_sparse_vector"] if reason is Reason.NO_SPARSE_VECTOR else [])


def misspelt(*words: str, able: bool | None = True, **event: Any) -> InFlight:
    """A query of the default recipe, with its words; `able`: the collection has trigrams, None: none are configured."""
    asked = embedded(**event)
    asked.retrieval.capabilities = capable(fuzzy=able)
    asked.retrieval.words = [QueryWord(word, [place], place, 1) for place, word in enumerate(words)]
    return asked


def test_the_fuzzy_leg_searches_by_trigrams() -> None:
    """By the configured vector, in what the query may see, by the trigrams of the words that are unknown when it is
    searched, and with the texts; the profile without a model has it, too.
    """
    for asked in (misspelt("lamp"), misspelt("lamp", profile="fast", recipe="hybrid")):
        written = SEARCHES.write(asked)
        asked.retrieval.unknown = asked.retrieval.words
        search, keyword = body(written["fuzzy"]), body(written[KEYWORD])
        expected = trigrams_of_query(["lamp"])
        assert search["query"] == {"indices": expected.indices, "values": expected.values}
        assert {*search["with_payload"]} == {*keyword["with_payload"], "title", "text"}
        assert (search["using"], search["filter"]) == ("fuzzy", keyword["filter"])


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (misspelt(able=None), None),
        (misspelt("lamp", able=False), Reason.NO_SPARSE_VECTOR),
        (misspelt(), Reason.NO_TERMS),
        (misspelt("lamp", recipe="rrf"), None),
    ],
)
def test_a_fuzzy_leg_that_is_not_asked_says_why(asked: InFlight, reason: Reason | None) -> None:
    """It is not in the answer where no vector is configured for it; no reason is a warning, for nobody asked for it."""
    assert "fuzzy" not in SEARCHES.write(asked)
    done = after(asked, {VECTOR: Found(FOUND), KEYWORD: Found(FOUND)})
    leg = done.outcome.legs.get("fuzzy")
    assert (leg.reason if leg is not None else None) == reason
    assert (done.outcome.degraded, done.outcome.warnings) == ([], [])


def test_a_query_without_any_other_leg_fails_with_its_encoding() -> None:
    """Nothing could be searched, and the lost part might have found something."""
    asked = learned(text="the")
    asked.retrieval.embedding = asked.retrieval.terms = None
    asked.lose("encode", Reason.UNAVAILABLE)
    assert after(asked, {}).outcome.failed


def test_a_lost_learned_leg_is_lost_alone() -> None:
    """As any other leg."""
    done = after(learned(ENCODED), {VECTOR: Found(FOUND), KEYWORD: Found(FOUND), LEARNED: BackendTimeout("late")})
    assert done.outcome.degraded == [("learned", Reason.TIMEOUT)]
    assert {name for name, leg in done.outcome.legs.items() if leg.status is LegStatus.OK} == {"vector", "keyword"}
