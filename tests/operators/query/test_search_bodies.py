"""Searches: which legs a query asks, how deep, within what, and which payload fields it takes along."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.assembly import query as assembly
from operators.clients.qdrant.answers import ValueCounts
from operators.query.backend_answers import Embedding, Hits
from operators.query.collection import Destinations
from operators.query.in_flight import InFlight
from operators.query.legs import Searches
from operators.query.plan import Planner
from operators.query.search import QueryBatch, Search, Words
from operators.query.search_bodies import Bodies
from operators.text.expression import parse
from operators.text.terms import SparseVector
from schemas.errors import Reason
from schemas.recipes import SHIPPED, Recipe
from schemas.result import FUZZY, KEYWORD, KEYWORD_CONTEXT, LEARNED, STRUCTURED, VECTOR
from schemas.settings import Profile, load
from schemas.settings.ranking import PROFILES
from tests.operators.samples import DIMENSION, OURS, STRICT, VECTORS, body, capable, decoder, message, searches

SEARCHES = searches()
HERE = {"url": "http://q"}
PLACES = Destinations({"default": "documents"})
EMBEDDING = Embedding(np.ones(DIMENSION, np.float32))
ON = {"enabled": True}
FILTER = {"field": "price", "op": "eq", "value": 1}
REFLECTION = {"key": "type", "match": {"value": "reflection"}}

RECIPES = {
    **SHIPPED,
    "bare": Recipe.parse("bare", {"stages": ["rrf"]}),
    "picked": Recipe.parse("picked", {"stages": ["rrf", {"llm_rerank": ON}]}),
    "unreflected": Recipe.parse("unreflected", {"stages": ["decay", {"reflections": {"include_reflections": False}}]}),
}
WIDE = {"wide": Profile(over_sample=1000), "narrow": Profile(over_sample=1)}
DECODER = decoder(
    planner=Planner({**PROFILES, **WIDE}, RECIPES), destinations=Destinations({"default": "documents", "d": "diary"})
)


def query(*, embedded: bool = True, terms: bool = True, **event: Any) -> InFlight:
    """A query with a vector and terms, unless it is to have none."""
    asked = DECODER(message({"query_id": "q", "text": "some text", "namespace": "acme", **event}))
    asked.retrieval.embedding = EMBEDDING if embedded else None
    asked.retrieval.terms = SparseVector([7], [1.0]) if terms else None
    return asked


def bodies(asked: InFlight, written: Searches = SEARCHES) -> dict[str, Any]:
    """The requests by leg, all of the query's own collection."""
    return {leg: body(search) for leg, search in written.write(asked).items()}


def further(search: Search, *keys: Any) -> Any:
    """The body of the search's second request, once its first has found documents of these keys; None if it has none.

    They are as many as it asked for, the last key that of all the rest.
    """
    program = search.start()
    first = next(program)
    assert isinstance(first, QueryBatch)
    limit = first.bodies[0]["limit"]
    payloads: list[Mapping[str, Any]] = [
        {} if key is None else {"p": key} for key in (*keys, *[keys[-1]] * (limit - len(keys)))
    ]
    found = Hits([str(number) for number in range(1, limit + 1)], [0.0] * limit, payloads)
    try:
        second = program.send([found])
    except StopIteration:
        return None
    assert isinstance(second, QueryBatch)
    return second.bodies[0]


def tenant(name: str) -> dict[str, Any]:
    """The condition of a namespace."""
    return {"key": "namespace", "match": {"value": name}}


BOTH = {VECTOR, KEYWORD}
ALL = {VECTOR, KEYWORD, STRUCTURED}


@pytest.mark.parametrize(
    ("event", "legs"),
    [
        ({}, BOTH),
        ({"recipe": "composite"}, BOTH),
        ({"recipe": "signals"}, BOTH),
        ({"recipe": "distance"}, BOTH),
        ({"recipe": "decay"}, BOTH),
        ({"recipe": "keyword"}, {KEYWORD}),
        ({"recipe": "vector"}, {VECTOR}),
        ({"recipe": "rrf", "overrides": {"rrf": {"weights": {"structured": 0.1}}}}, ALL),
        ({"recipe": "rrf", "overrides": {"rrf": {"weights": {"structured": 0}}}}, BOTH),
        ({"overrides": {"score": {"weights": {"structured": 1.0}}}}, ALL),
        ({"recipe": "signals", "overrides": {"weighted": {"vector_weight": 0}}}, {KEYWORD}),
        ({"recipe": "signals", "overrides": {"weighted": {"vector_weight": 0, "keyword_weight": 0}}}, {STRUCTURED}),
    ],
)
def test_the_recipe_says_which_legs_are_asked(event: dict[str, Any], legs: set[str]) -> None:
    """A leg is asked if the recipe has a use for what it finds; the structured leg only where the recipe names it."""
    assert bodies(query(**event)).keys() == legs


@pytest.mark.parametrize(
    ("event", "legs"),
    [
        ({"terms": False}, {VECTOR}),
        ({"embedded": False}, {KEYWORD}),
        ({"embedded": False, "terms": False}, set()),
        ({"embedded": False, "profile": "fast"}, {KEYWORD}),
        ({"embedded": False, "profile": "fast", "vector": [1.0, 0.0, 0.0]}, BOTH),
        ({"embedded": False, "vector": [0.0, 0.0, 0.0]}, {KEYWORD}),
        ({"embedded": False, "terms": False, "recipe": "decay"}, {STRUCTURED}),
        ({"embedded": False, "terms": False, "recipe": "signals"}, {STRUCTURED}),
        ({"embedded": False, "recipe": "signals"}, {KEYWORD}),
    ],
)
def test_a_leg_that_has_nothing_to_ask_by_is_left_out(event: dict[str, Any], legs: set[str]) -> None:
    """Without a vector no vector leg, without terms no keyword leg; a recipe that needs neither ranks the newest."""
    assert bodies(query(**event)).keys() == legs


def test_each_leg_asks_by_its_own() -> None:
    """The vector leg by the embedding, the keyword leg by the terms, each on its vector; the newest come by date."""
    structured = {"rrf": {"weights": {"structured": 1.0}}}
    found = bodies(
        query(recipe="rrf", overrides=structured),
        searches(idf_of_namespace=False, vectors={VECTOR: "meaning", KEYWORD: "words"}),
    )
    assert found[VECTOR]["query"] is EMBEDDING.vector
    assert found[VECTOR]["using"] == "meaning"
    assert found[KEYWORD]["query"] == {"indices": [7], "values": [1.0]}
    assert found[KEYWORD]["using"] == "words"
    assert found[STRUCTURED]["order_by"] == {"key": "_created", "direction": "desc"}
    assert not {"query", "using"} & found[STRUCTURED].keys()


def test_what_was_lost_is_not_replaced() -> None:
    """The newest documents are no answer to the text if the embedding was lost."""
    asked = query(embedded=False, terms=False, recipe="signals")
    asked.lose("embed", Reason.TIMEOUT)
    assert bodies(asked) == {}


def test_the_settings_name_the_vectors() -> None:
    """The names of the index's vectors, and the documents that term frequencies count, are configuration."""
    of = {"url": "http://q", "vectors": {"dense": "d", "sparse": "s"}, "idf": "collection"}
    own = {**VECTORS, VECTOR: "d", KEYWORD: "s", LEARNED: None, FUZZY: None}
    assert assembly.bodies(load(None, {"qdrant": of}).qdrant) == Bodies(own, False, PLACES, hnsw_ef=384)
    assert assembly.bodies(load(None, {"qdrant": {"url": "http://q"}}).qdrant) == Bodies(
        {**VECTORS, LEARNED: None, FUZZY: None}, True, PLACES, hnsw_ef=384
    )
    assert "params" not in bodies(query(), searches(idf_of_namespace=False))[KEYWORD]


@pytest.mark.parametrize(("bound", "asked"), [(None, 256), (64, 64), (512, 256)])
def test_the_vector_leg_looks_at_as_many_candidates_as_it_is_told(bound: int | None, asked: int) -> None:
    """As many as are configured, and no more than the collection allows; the other legs know nothing of it, and what
    passes the index by either.
    """
    configured = Searches(assembly.bodies(load(None, {"qdrant": {**HERE, "search": {"hnsw_ef": 256}}}).qdrant))
    searched = query()
    searched.retrieval.capabilities = replace(OURS, limits={"search_max_hnsw_ef": bound} if bound else {})
    found = bodies(searched, configured)
    assert found[VECTOR]["params"] == {"hnsw_ef": asked}
    assert "hnsw_ef" not in found[KEYWORD].get("params", {})
    assert bodies(query(reflections_only=True), configured)[VECTOR]["params"] == {"exact": True}
    unset = Searches(assembly.bodies(load(None, {"qdrant": {**HERE, "search": {"hnsw_ef": None}}}).qdrant))
    assert "params" not in bodies(query(), unset)[VECTOR]


@pytest.mark.parametrize(
    ("event", "depth"),
    [
        ({}, 100),
        ({"limit": 150}, 150),
        ({"limit": 999}, 200),
        ({"profile": "deep"}, 500),
        ({"profile": "fast"}, 100),
        ({"profile": "fast", "limit": 5}, 100),
        ({"profile": "narrow", "limit": 7}, 7),
        ({"profile": "wide"}, 1000),
        ({"recipe": "distance"}, 100),
        ({"recipe": "distance", "limit": 34}, 102),
        ({"recipe": "distance", "limit": 34, "rerank": False}, 102),
        ({"recipe": "distance", "limit": 50, "profile": "fast"}, 150),
        ({"recipe": "distance", "limit": 200, "profile": "deep"}, 600),
        ({"recipe": "distance", "limit": 200, "profile": "wide"}, 1000),
        ({"recipe": "picked", "limit": 50}, 150),
        ({"recipe": "picked", "limit": 50, "overrides": {"llm_rerank": {"enabled": False}}}, 100),
        ({"recipe": "composite", "limit": 50}, 100),
        ({"reflections_only": True, "limit": 1}, 1000),
        ({"reflections_only": True, "profile": "fast"}, 1000),
    ],
)
def test_how_deep_a_leg_is_asked(event: dict[str, Any], depth: int) -> None:
    """The page, or the profile's over-sample if that is more; three pages where a stage on distance runs; all legs the
    same; never more than 1,000, and 1,000 of reflections alone.
    """
    assert {each["limit"] for each in bodies(query(**event)).values()} == {depth}


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ({"recipe": "bare"}, ["id", "namespace"]),
        ({}, ["_content", "_fields", "_marks", "created_at", "id", "namespace", "updated_at"]),
        ({"recipe": "keyword"}, ["_content", "_fields", "created_at", "id", "namespace", "updated_at"]),
        ({"recipe": "decay"}, ["_marks", "created_at", "id", "namespace"]),
        ({"recipe": "distance"}, ["created_at", "emotional_weight", "id", "importance", "namespace", "text", "title"]),
        ({"recipe": "signals"}, ["created_at", "cycle", "id", "namespace", "priority", "type", "updated_at"]),
        (
            {"recipe": "signals", "overrides": {"weighted": {"graph_weight": 0.1}}},
            ["created_at", "cycle", "edges", "id", "namespace", "priority", "type", "updated_at"],
        ),
        (
            {"recipe": "bare", "reflections_only": True},
            ["created_at", "cycle", "id", "namespace", "type", "updated_at"],
        ),
    ],
)
def test_a_payload_is_asked_for_what_ranking_reads(event: dict[str, Any], fields: object) -> None:
    """Namespace and id of every hit, always; what no stage reads stays in the index, edges until the graph weighs."""
    assert all(each["with_payload"] == fields for each in bodies(query(**event)).values())


def test_what_is_excluded_is_excluded_from_every_leg() -> None:
    """`NOT red` narrows the vector leg by the same condition, beside what it has; other expressions don't."""
    found = {}
    for text in ("lantern NOT red", "lantern AND red"):
        searched = query(text=text, vector=[1.0, 0.0, 0.0])
        searched.retrieval.parsed = parse(text, {})
        found[text] = bodies(searched)
    asked, plain = found.values()
    red = {"should": [{"key": column, "match": {"text": "red"}} for column in ("title", "text")]}
    assert asked["vector"]["filter"] == {**plain["vector"]["filter"], "must_not": [red]}


@pytest.mark.parametrize("text", ["lantern NOT red", 'lantern NOT "red hut"', "(lantern NOT red) OR (hut NOT red)"])
def test_an_exclusion_needs_no_keyword_leg(text: str) -> None:
    """Without a sparse vector, too, the legs leave out what is excluded, where the collection can be asked for it."""
    searched = query(text=text, vector=[1.0, 0.0, 0.0])
    searched.retrieval.parsed = parse(text, {})
    able = searched.retrieval.capabilities
    searched.retrieval.capabilities = capable(able, sparse=False)
    assert bodies(searched)["vector"]["filter"]["must_not"]
    searched.retrieval.capabilities = capable(able, sparse=False, fields={"text": frozenset()}, limits=STRICT)
    assert "red" not in str(bodies(searched)["vector"]["filter"])


EVERYTHING = {"id", "title", "text", "type", "created_at", "updated_at", "accessed_at", "confirmed_at", "cycle"}
EVERYTHING |= {
    "emotional_weight",
    "_marks",
    "_neighbours",
    "priority",
    "edges",
    "importance",
    "salience",
    "memory_tier",
    "confidence",
    "access_count",
}


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recorded_query_takes_all_that_any_recipe_reads(recipe: str) -> None:
    """A pool can be ranked by another recipe: each leg is asked for every field that a stage can read."""
    for asks in bodies(query(recipe=recipe, record=True)).values():
        own = {"_content", "_fields"}
        assert set(asks["with_payload"]) == EVERYTHING | {"namespace"} | (RECIPES[recipe].reads & own)
        assert RECIPES[recipe].reads - own <= EVERYTHING


@pytest.mark.parametrize("recipe", RECIPES)
def test_reflections_alone_are_searched_exactly(recipe: str) -> None:
    """With a vector the nearest reflections come, exactly and by no other leg, whatever the recipe; no other search is
    exact.
    """
    found = bodies(query(recipe=recipe, reflections_only=True, namespace="acme"))
    assert found.keys() == {VECTOR}
    assert found[VECTOR]["params"] == {"exact": True}
    assert found[VECTOR]["filter"] == {"must": [tenant("acme"), REFLECTION]}
    assert not any("exact" in each.get("params", {}) for each in bodies(query(recipe=recipe)).values())


@pytest.mark.parametrize("event", [{"embedded": False}, {"embedded": False, "vector": [0.0, 0.0, 0.0]}])
def test_reflections_without_a_vector_are_the_newest(event: dict[str, Any]) -> None:
    """A query without vector gets reflections from the structured leg, newest first; terms alone are not asked by."""
    found = bodies(query(reflections_only=True, **event))
    assert found.keys() == {STRUCTURED}
    assert found[STRUCTURED]["order_by"] == {"key": "_created", "direction": "desc"}
    assert found[STRUCTURED]["filter"] == {"must": [tenant("acme"), REFLECTION]}


@pytest.mark.parametrize("event", [{"recipe": "decay", "include_reflections": False}, {"recipe": "unreflected"}])
def test_reflections_are_left_out_of_every_leg(event: dict[str, Any]) -> None:
    """No leg returns a reflection if query or recipe leaves them out; term frequencies stay those of the namespace."""
    found = bodies(query(**event))
    assert found.keys() == BOTH
    for asks in found.values():
        assert asks["filter"] == {"must": [tenant("acme")], "must_not": [REFLECTION]}
    assert found[KEYWORD]["params"] == {"idf": {"corpus": {"must": [tenant("acme")]}}}
    back = bodies(query(**{**event, "include_reflections": True}))
    assert all(each["filter"] == {"must": [tenant("acme")]} for each in back.values())


@pytest.mark.parametrize("written", [SEARCHES, searches(idf_of_namespace=False)])
@pytest.mark.parametrize("leg", [KEYWORD, KEYWORD_CONTEXT])
def test_no_corpus_is_named_to_a_vector_without_idf(written: Searches, leg: str) -> None:
    """Qdrant refuses a search that names one; the other vector of terms has its own."""
    asked = query(overrides={"score": {"weights": {KEYWORD_CONTEXT: 1.0}}})
    for keys in ({"sparse"}, {"sparse_context"}, {"sparse", "sparse_context"}):
        able = capable(sparse_context=True)
        asked.retrieval.capabilities = replace(able, vectors={**able.vectors, **dict.fromkeys(keys, "none")})
        names = {key.replace("sparse", "bm25") for key in keys}
        asks = bodies(asked, written)[leg]
        assert ("params" in asks) == (written is SEARCHES and asks["using"] not in names)


def test_endings_are_looked_up_within_what_the_query_sees() -> None:
    """The words that a phrase may end in are those of documents that the leg itself may return."""
    asked = query(subject="s", include_reflections=False)
    asked.retrieval.parsed = parse('title:"deep lea"*', {"title": "title"})
    program = SEARCHES.write(asked)[KEYWORD].start()
    words = next(program)
    assert isinstance(words, Words)
    [(_, where)] = words.fields
    seen = bodies(query(subject="s", include_reflections=False))[KEYWORD]["filter"]
    assert where["must"][:-1] == seen["must"]
    assert where["must_not"] == seen["must_not"] == [REFLECTION]
    search = program.send([ValueCounts({"learning": 2, "teaching": 9}, cut=False, exact=True)])
    assert isinstance(search, QueryBatch)
    [finished] = search.bodies
    phrase = {"key": "title", "match": {"phrase": "deep learning"}}
    assert finished["filter"] == {**seen, "must": [*seen["must"], phrase]}


asked = st.fixed_dictionaries(
    {"recipe": st.sampled_from(sorted(RECIPES)), "profile": st.sampled_from(["fast", "balanced", "deep", "narrow"])},
    optional={
        "namespace": st.text(min_size=1, max_size=5),
        "destination": st.sampled_from(["default", "d"]),
        "vector": st.lists(st.floats(-1, 1, width=32), min_size=DIMENSION, max_size=DIMENSION),
        "reflections_only": st.booleans(),
        "record": st.booleans(),
        "rerank": st.booleans(),
        "limit": st.integers(0, 300),
        "embedded": st.booleans(),
        "terms": st.booleans(),
    },
)


@given(asked)
def test_every_leg_stays_in_the_namespace_and_the_collection(event: dict[str, Any]) -> None:
    """Whatever is asked, each request demands the query's namespace, counts terms within it, and holds the page."""
    one = query(**event)
    assert one.asked.collection == {"d": "diary"}.get(event.get("destination", ""), "documents")
    for asks in bodies(one).values():
        assert tenant(event.get("namespace", "acme")) in asks["filter"]["must"]
        assert "should" not in asks["filter"]
        assert one.asked.limit <= asks["limit"] <= 1000
        corpus = asks.get("params", {}).get("idf", {}).get("corpus", asks["filter"])
        assert tenant(event.get("namespace", "acme")) in corpus["must"]


@pytest.mark.parametrize("event", [{}, {"now": 1.0}, {"text": None, "filters": [FILTER]}])
def test_no_leg_is_asked_for_expired_documents(event: dict[str, Any]) -> None:
    """Each leg leaves out those that expired before the query was received, whatever its own `now` is."""
    asked = DECODER(message({"query_id": "q", "text": "some text", **event}, received=1700000000.5))
    asked.retrieval.embedding, asked.retrieval.terms = EMBEDDING, SparseVector([7], [1.0])
    expired = {"must_not": [{"key": "_expires", "range": {"lte": 1700000000500}}]}
    assert all(expired not in each["filter"]["must"] for each in bodies(asked).values())
    asked.retrieval.capabilities = capable(expires=True)
    found = bodies(asked)
    assert found
    assert all(expired in each["filter"]["must"] for each in found.values())


def test_with_groups_each_leg_tells_when_its_documents_expire() -> None:
    """A group counts documents that are not fetched: its cached answer ends with the first of them."""
    asked = DECODER(message({"query_id": "q", "text": "some text", "group_by": "subject"}))
    asked.retrieval.embedding, asked.retrieval.terms = EMBEDDING, SparseVector([7], [1.0])
    assert all("_expires" not in each["with_payload"] for each in bodies(asked).values())
    asked.retrieval.capabilities = capable(expires=True)
    found = bodies(asked)
    assert found
    assert all("_expires" in each["with_payload"] for each in found.values())


def test_groups_are_asked_for_twice_as_many_candidates_as_results() -> None:
    """Or the over-sample, if that is more; half as many groups are wanted, and the field to group by comes along."""
    for limit, depth in ((20, 100), (100, 200), (200, 400)):
        for search in SEARCHES.write(query(group_by="p", limit=limit)).values():
            asks = body(search)
            assert asks["limit"] == depth
            assert "p" in asks["with_payload"]
            few, enough = range(depth // 2 - 1), range(depth // 2)
            assert (further(search, *few) is None, further(search, *enough) is None) == (False, True)


def test_a_search_beyond_the_groups_leaves_out_what_is_found() -> None:
    """Keys by value, each type by itself, documents without a key by id; one with several values is of no group."""
    [search, *_] = SEARCHES.write(query(group_by="p")).values()
    first = body(search)
    beyond = further(search, "a", None, 1, "a", True)
    conditions = [
        {"key": "p", "match": {"any": ["a"]}},
        {"key": "p", "range": {"gte": 1, "lte": 1}},
        {"key": "p", "match": {"value": True}},
    ]
    others = {"should": [{"must_not": [{"should": conditions}]}, {"key": "p", "values_count": {"gt": 1}}]}
    seen = first["filter"]
    assert beyond == {
        **first,
        "limit": 4 * first["limit"],
        "filter": {**seen, "must": [*seen["must"], others], "must_not": [{"has_id": [2]}]},
    }


def test_strict_mode_may_leave_no_room_for_the_conditions() -> None:
    """Then a leg's first candidates have to do."""
    asked = query(group_by="p")
    asked.retrieval.capabilities = capable(filter_max_conditions=6)
    assert all(further(search, "a") is None for search in SEARCHES.write(asked).values())
