"""Searches as programs: each is answered here by hand."""

import pytest

from operators.clients.qdrant.requests import Limits
from operators.query.backend_answers import Hits
from operators.query.search import Body, Count, Found, Program, QueryBatch, all_matching, nearest

BODY: Body = {"filter": {"must": []}, "limit": 2}


def end(program: Program, answer: object) -> Found:
    """The outcome of a program, by the answer to its last request."""
    with pytest.raises(StopIteration) as ended:
        program.send(answer)
    found: Found = ended.value.value
    return found


def hits(*ids: str) -> Hits:
    """Hits with falling scores."""
    return Hits([*ids], [1.0 / (rank + 1) for rank in range(len(ids))], [{} for _ in ids])


@pytest.mark.parametrize(("given", "whole"), [(("a", "b", "c"), True), (("a", "b"), False)])
def test_a_search_for_all_asks_for_as_many_as_there_are(given: tuple[str, ...], whole: bool) -> None:
    """It is whole if all come: a collection may give fewer to one search."""
    program = all_matching(BODY)
    assert next(program) == Count([BODY["filter"]])
    assert program.send([3]) == QueryBatch([{**BODY, "limit": 3}])
    found = end(program, [hits(*given)])
    assert (found.hits.ids, found.whole) == ([*given], whole)


def test_no_search_asks_for_more_hits_than_the_collection_gives() -> None:
    """Strict mode would refuse it."""
    limits = Limits.of({"max_query_limit": 5})
    assert [limits.search({**BODY, "limit": limit})["limit"] for limit in (2, 5, 6)] == [2, 5, 5]


def test_what_matches_without_a_score_comes_behind() -> None:
    """Each document once, as many as were asked for."""
    bodies = [{**BODY, "query": [1.0]}, BODY]
    program = nearest(bodies)
    assert next(program) == QueryBatch(bodies)
    found = end(program, [hits("a"), hits("a", "b", "c")])
    assert (found.hits.ids, found.hits.scores) == (["a", "b"], [1.0, 0.0])


def test_a_filter_alone_gives_no_scores() -> None:
    """None, whatever numbers the server gives."""
    program = nearest([BODY])
    next(program)
    assert end(program, [hits("a", "b")]).hits.scores == [0.0, 0.0]
