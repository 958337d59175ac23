"""The candidate pool: what a line may hold, whose clock counts, and that every mistake is named."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas.fields import MAX_FLOAT32
from schemas.pool import CandidatePool, encode_vector

QUERY = {"query_id": "q", "text": "find me"}
HIT = {"id": "a", "score": 0.5, "payload": {"text": "found", "n": [1, {"b": None}]}}
LEG = {"name": "vector", "hits": [HIT]}


def vector(*components: float) -> str:
    """A vector as pools have it."""
    return encode_vector(np.array(components, np.float16))


INFINITE = vector(math.inf)


def pool(**fields: Any) -> CandidatePool:
    """A pool with these fields."""
    return CandidatePool.model_validate({"query": QUERY, "legs": [LEG], **fields})


def refusal(**fields: Any) -> list[tuple[str, str]]:
    """The path and the text of each error of a pool with these fields."""
    with pytest.raises(ValidationError) as caught:
        pool(**fields)
    return [(".".join(map(str, error["loc"])), error["msg"]) for error in caught.value.errors()]


def test_the_least_pool() -> None:
    """A query and its legs; no leg, and legs without a hit or a payload, are pools, too."""
    least = CandidatePool.model_validate({"query": QUERY, "legs": []})
    assert (least.query.query_id, least.legs, least.rerank, least.clock) == ("q", [], None, None)
    bare = pool(legs=[{"name": "vector", "hits": []}, {"name": "keyword", "hits": [{"id": "a", "score": 1}]}])
    assert [len(leg.hits) for leg in bare.legs] == [0, 1]
    assert bare.legs[1].hits[0].payload == {}


@pytest.mark.parametrize("missing", ["query", "legs"])
def test_query_and_legs_are_required(missing: str) -> None:
    """A pool without either is refused by the field's name."""
    with pytest.raises(ValidationError, match=rf"{missing}\n\s+Field required"):
        CandidatePool.model_validate(
            {name: value for name, value in (("query", QUERY), ("legs", [])) if name != missing}
        )


def test_payloads_and_names_are_kept_as_they_are() -> None:
    """Any JSON may stand in a payload, and a leg may have a name of its own; hits keep their order, also ids twice."""
    hits = [{"id": id_, "score": score} for id_, score in (("b", 0.1), ("a", 0.9), ("b", 0.5))]
    found = pool(legs=[LEG, {"name": "image search", "hits": hits}])
    assert found.legs[0].hits[0].payload == HIT["payload"]
    assert [(hit.id, hit.score) for hit in found.legs[1].hits] == [("b", 0.1), ("a", 0.9), ("b", 0.5)]


@pytest.mark.parametrize(
    ("pools", "querys", "clock"),
    [
        (None, None, None),
        (5.0, None, 5.0),
        (None, 7.0, 7.0),
        (5.0, 7.0, 5.0),
        (0, 7.0, 0.0),
        ("1970-01-01T00:00:05Z", 7, 5.0),
        ("1970-01-01T02:00:05+02:00", None, 5.0),
        (None, "1970-01-01T00:00:07.25Z", 7.25),
    ],
)
def test_the_pools_clock_goes_before_the_querys(pools: Any, querys: Any, clock: float | None) -> None:
    """In Unix seconds, whichever form it was written in; the epoch is a time, and a time is not needed."""
    assert pool(now=pools, query={**QUERY, "now": querys}).clock == clock


def test_a_pools_clock_is_no_second_clock_of_the_query() -> None:
    """A query in cycles was ranked at some time, too: only its own `now` beside its cycle is refused."""
    assert pool(now=5.0, query={**QUERY, "current_cycle": 3}).clock == 5.0
    ((path, said),) = refusal(query={**QUERY, "current_cycle": 3, "now": 5.0})
    assert path == "query"
    assert "now and current_cycle" in said


def hit(**fields: Any) -> dict[str, Any]:
    """Legs with one hit, with these fields."""
    return {"legs": [{"name": "vector", "hits": [{**HIT, **fields}]}]}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"now": "2024-01-01T00:00:00"}, "now"),
        ({"now": "yesterday"}, "now"),
        ({"now": True}, "now"),
        ({"now": 1e18}, "now"),
        ({"query": {"query_id": "q"}}, "query"),
        ({"query": {**QUERY, "limit": 2.5}}, "query.limit"),
        ({"query": {**QUERY, "txet": "x"}}, "query.txet"),
        ({"query": None}, "query"),
        ({"legs": None}, "legs"),
        ({"legs": {"vector": []}}, "legs"),
        ({"legs": [{"name": "vector"}]}, "legs.0.hits"),
        ({"legs": [LEG, {"hits": []}]}, "legs.1.name"),
        ({"legs": [{"name": "", "hits": []}]}, "legs.0.name"),
        ({"legs": [{"name": "v" * 257, "hits": []}]}, "legs.0.name"),
        ({"legs": [{"name": 1, "hits": []}]}, "legs.0.name"),
        ({"legs": [{**LEG, "weight": 1}]}, "legs.0.weight"),
        (hit(id=""), "legs.0.hits.0.id"),
        (hit(id=7), "legs.0.hits.0.id"),
        (hit(id="x" * 4097), "legs.0.hits.0.id"),
        (hit(score=None), "legs.0.hits.0.score"),
        (hit(score="0.5"), "legs.0.hits.0.score"),
        (hit(score=True), "legs.0.hits.0.score"),
        (hit(score=math.nan), "legs.0.hits.0.score"),
        (hit(score=math.inf), "legs.0.hits.0.score"),
        (hit(score=1e39), "legs.0.hits.0.score"),
        (hit(score=-1e39), "legs.0.hits.0.score"),
        (hit(payload=None), "legs.0.hits.0.payload"),
        (hit(payload=[]), "legs.0.hits.0.payload"),
        (hit(rank=1), "legs.0.hits.0.rank"),
        ({"rerank": [["a", 1.0]]}, "rerank"),
        ({"rerank": {"a": math.nan}}, "rerank.a"),
        ({"rerank": {"a": "1"}}, "rerank.a"),
        ({"rerank": {"a": 1e39}}, "rerank.a"),
        ({"reranked": {}}, "reranked"),
        ({"vectors": [[1.0]]}, "vectors"),
        ({"vectors": {"a": [1.0]}}, "vectors.a"),
        ({"vectors": {"a": ""}}, "vectors.a"),
        ({"vectors": {"a": "no base64"}}, "vectors.a"),
        ({"vectors": {"a": "AAAA"}}, "vectors.a"),
        ({"vectors": {"a": INFINITE}}, "vectors.a"),
        ({"vectors": {"a": vector(1.0), "b": vector(1.0, 0.0)}}, "vectors"),
    ],
)
def test_what_is_wrong_is_named_by_its_path(fields: dict[str, Any], path: str) -> None:
    """Unknown fields, wrong types, naive times and scores that no leg can give are errors at their place."""
    assert path in [place for place, _ in refusal(**fields)]


def test_a_vector_is_read_as_it_was_written() -> None:
    """Each component has its 16 bits again, in any order of bytes of the machine."""
    assert vector(1.0, -2.0, 0.5) == "ADwAwAA4"
    read = pool(vectors={"a": vector(1.0, -2.0, 0.5), "b": vector(65504.0, 6e-8, 0.1)}).vectors
    assert read is not None
    assert read["a"].tolist() == [1.0, -2.0, 0.5]
    assert read["b"].tolist() == np.array([65504.0, 6e-8, 0.1], np.float16).tolist()


def test_a_leg_is_there_once() -> None:
    """Two lists under one name would be two answers to one question."""
    ((_, said),) = refusal(legs=[LEG, {"name": "keyword", "hits": []}, LEG])
    assert said.endswith("legs: a name is listed twice")


@pytest.mark.parametrize("score", [MAX_FLOAT32, -MAX_FLOAT32, 0, -0.0, 1e-45, 7])
def test_any_number_of_32_bits_is_a_score(score: float) -> None:
    """The extremes, too, of legs and of rerankers."""
    found = pool(**hit(score=score), rerank={"a": score})
    assert found.legs[0].hits[0].score == score
    assert found.rerank == {"a": score}


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
pools = st.fixed_dictionaries(
    {
        "legs": st.lists(
            st.fixed_dictionaries(
                {
                    "name": st.text(min_size=1, max_size=4),
                    "hits": st.lists(
                        st.fixed_dictionaries(
                            {
                                "id": st.text(min_size=1, max_size=4),
                                "score": st.floats(allow_nan=False, allow_infinity=False, width=32),
                                "payload": st.dictionaries(st.text(max_size=4), values, max_size=2),
                            }
                        ),
                        max_size=3,
                    ),
                }
            ),
            max_size=3,
            unique_by=lambda leg: leg["name"],
        )
    },
    optional={"rerank": st.dictionaries(st.text(max_size=4), st.floats(-1, 1), max_size=3), "now": st.floats(0, 1e9)},
)


@given(pools)
def test_a_pool_says_what_it_was_read_from(fields: dict[str, Any]) -> None:
    """Nothing of a pool is changed by reading it: written again it is the same JSON."""
    document = {"query": QUERY, **fields}
    assert CandidatePool.model_validate(document).model_dump(mode="json", exclude_unset=True) == document
    assert json.loads(pool(**fields).model_dump_json(exclude_unset=True))["query"] == QUERY
