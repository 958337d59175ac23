"""Facets: what is counted of them, and whether it is exact."""

from collections.abc import Mapping
from typing import Any

import pytest

from operators.access.firewall import AccessFilter
from operators.access.indexes import RANGES
from operators.clients.qdrant.answers import ValueCounts
from operators.query.backend_answers import Hits
from operators.query.facets import count_facets
from operators.query.search import Count, Found, Program, Words
from schemas.facets import Facet
from schemas.result import FACETS
from tests.operators.samples import capable, query, searches


def test_counts_are_exact_where_the_server_may_count() -> None:
    """Of ranges and of all that matches, too: `search_allow_exact` may forbid it, and the server estimates then."""
    facet = {"field": "v.size", "ranges": [{"lt": 5}]}
    wanted = {"field": "v[].size", "op": "eq", "value": 3}
    for exact in (True, False):
        asked = query(text=None, subject="s", facets=[facet, {**facet, "exclude_own": False}], filters=[wanted])
        asked.retrieval.capabilities = capable(fields={"v[].size": RANGES}, search_allow_exact=exact)
        program = searches().write(asked)[FACETS].start()
        own, every = next(program), program.send([7, 5])
        assert isinstance(own, Count)
        assert isinstance(every, Count)
        # Only the spelling that has an index is asked for, and the filter on the field itself is left out of one.
        assert "v.size" not in str((own, every))
        with pytest.raises(StopIteration) as ended:
            program.send([9, 6])
        counts = ended.value.value.counts
        assert (counts.exact, [each["exact"] for each in counts.facets]) == (exact, [exact, exact])
        assert {len(own.wheres[0]["must"]), len(every.wheres[0]["must"])} == {2, 3}


def test_there_may_be_more_values_than_the_server_gives() -> None:
    """`max_query_limit` may be less than the facet's: then nobody knows whether there are further values."""
    asked = query(
        text=None, subject="s", facets=[{"field": "brand", "limit": 2}, {"field": "brand", "prefix": "e\u0301"}]
    )
    asked.retrieval.capabilities = capable(fields={"brand": RANGES}, max_query_limit=2)
    program = searches().write(asked)[FACETS].start()
    assert isinstance(next(program), Count)
    assert isinstance(program.send([3]), Words)
    with pytest.raises(StopIteration) as ended:
        program.send([ValueCounts({"\u00c9lan": 2, "Bose": 1}, cut=True, exact=True)] * 2)
    plain, accented = ended.value.value.counts.facets
    assert (plain["more"], plain["exact"]) == (True, True)
    assert (accented["values"], accented["exact"]) == ([{"value": "\u00c9lan", "count": 2}], False)


def test_encodings_of_a_string_are_one_value() -> None:
    """In the counts of an index, and in those of documents that are read."""
    forms = ["\u00c9lan", "E\u0301lan"]
    counted = query(text=None, subject="s", facets=[{"field": "brand"}])
    counted.retrieval.capabilities = capable(fields={"brand": RANGES})
    program = searches().write(counted)[FACETS].start()
    assert isinstance(next(program), Count)
    assert isinstance(program.send([3]), Words)
    with pytest.raises(StopIteration) as ended:
        program.send([ValueCounts({forms[0]: 2, "Bose": 4, forms[1]: 3}, cut=False, exact=True)])
    values = [{"value": forms[0], "count": 5}, {"value": "Bose", "count": 4}]
    assert ended.value.value.counts.facets[0]["values"] == values
    payloads: list[Mapping[str, Any]] = [{"namespace": "acme", "brand": each} for each in (forms, forms[1])]
    found = Hits(["a", "b"], [1, 1], payloads)
    with pytest.raises(StopIteration) as read:
        next(
            count_facets(
                [Facet(field="brand")],
                lambda _: ({}, lambda: returning(found)),
                frozenset(),
                AccessFilter("acme"),
                capable(),
            )
        )
    assert read.value.value.counts.facets[0]["values"] == [{"value": forms[0], "count": 2}]


def returning(hits: Hits) -> Program:
    """A search that asks nothing and has found the hits."""
    return Found(hits)
    yield
