"""Candidates become calls: what fits into one, who may meet in it, and that no split changes a verdict."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.clients.rerankers import Capacity, RerankRequest
from operators.clients.rerankers.candidates import FRAME, LEAST, Candidates, room
from operators.clients.rerankers.listwise import CAPACITY
from operators.query.backend_answers import Scores
from operators.ranking.candidate import Candidate
from operators.ranking.head import rank_by_model
from operators.ranking.run import Facts, ModelScores, Run
from operators.runtime.batching.backlog import Backlog, PendingRequest
from operators.runtime.batching.policy import Waiting
from schemas.errors import BackendUnavailable
from schemas.recipes.stages import Rerank

MANY = 1_000_000


def asked(query: str = "q", *lengths: int, namespace: str = "n", collection: str = "c") -> RerankRequest:
    """A query with documents of these lengths."""
    documents = {f"{query}-{number}": "x" * length for number, length in enumerate(lengths)}
    return RerankRequest(query, documents, collection, namespace)


def counts(capacity: Capacity, *requests: RerankRequest, taken: int = 0) -> list[int]:
    """The share of each request in a call, of the first beginning after `taken`."""
    waiting = [
        Waiting(request, taken if not index else 0, len(request.documents)) for index, request in enumerate(requests)
    ]
    return list(Candidates(capacity).select(waiting))


def calls(capacity: Capacity, requests: list[RerankRequest]) -> list[list[RerankRequest]]:
    """All calls that the requests become."""
    batching = Candidates(capacity)
    backlog = Backlog[RerankRequest, Scores](batching, 0)
    for request in requests:
        backlog.put(PendingRequest(request, math.inf, batching.units(request)))
    return [
        [batching.part(each.request.query, each.start, each.stop) for each in slices]
        for slices in iter(lambda: backlog.take(0.0), [])
    ]


def test_one_query_a_call() -> None:
    """The next query waits for its own call if a call carries one query's documents."""
    assert counts(Capacity(queries=1, documents=10), asked("a", 1, 1), asked("b", 1)) == [2]


def test_pairs_fill_a_call() -> None:
    """Documents of many queries go in until it is full; the last one's rest comes first in the next call."""
    capacity = Capacity(queries=MANY, documents=5)
    a, b, c = asked("a", 1, 1), asked("b", 1, 1, 1, 1), asked("c", 1)
    assert counts(capacity, a, b, c) == [2, 3]
    assert counts(capacity, b, c, taken=3) == [1, 1]


def test_tenants_never_meet_in_a_call() -> None:
    """Those of the first query's namespace go in; the others keep their places."""
    capacity = Capacity(queries=MANY, documents=10, apart="namespace")
    mine, yours = asked("a", 1, 1, namespace="mine"), asked("b", 1, namespace="yours")
    assert counts(capacity, mine, yours, mine) == [2, 0, 2]


def test_collections_are_asked_apart() -> None:
    """A call that goes to one collection holds only that one's queries."""
    capacity = Capacity(queries=MANY, documents=10, apart="collection")
    assert counts(capacity, asked("a", 1, collection="x"), asked("b", 1, namespace="m", collection="y")) == [1, 0]


def test_who_compares_candidates_gets_them_together() -> None:
    """Whole queries only: one that doesn't fit beside the first waits, and one that is too large goes alone."""
    capacity = Capacity(queries=MANY, documents=3, whole=True)
    assert counts(capacity, asked("a", 1, 1), asked("b", 1, 1)) == [2, 0]
    assert counts(capacity, asked("a", 1, 1), asked("b", 1)) == [2, 1]
    assert counts(capacity, asked("a", *[1] * 9), asked("b", 1)) == [9]


def test_characters_of_one_query_count_once() -> None:
    """By hand: query of 4, the frame, documents of 30 each under a cap of 4 + 16 + 70: two fit, the third doesn't."""
    capacity = Capacity(documents=10, chars=4 + FRAME + 70)
    assert counts(capacity, asked("abcd", 30, 30, 30)) == [2]
    assert counts(capacity, asked("abcd", 30, 40, 30)) == [2]
    assert counts(capacity, asked("abcd", 30, 41, 30)) == [1]


def test_characters_of_pairs_count_with_their_query() -> None:
    """By hand: each pair costs 4 + 16 + 30; of a cap of 3 pairs the first query's two and one of the second's fit."""
    capacity = Capacity(queries=MANY, documents=10, chars=3 * (4 + FRAME + 30))
    assert counts(capacity, asked("abcd", 30, 30), asked("efgh", 30, 30)) == [2, 1]
    assert counts(capacity, asked("abcd", 30, 30), asked("efgh", 31, 30)) == [2, 0]


def test_a_document_over_the_cap_goes_alone() -> None:
    """No document makes an empty call."""
    assert counts(Capacity(chars=50), asked("q", 500, 1)) == [1]


@pytest.mark.parametrize(
    ("max_chars", "max_doc", "left"),
    [(0, 0, None), (0, 300, 300), (100, 0, 100 - 2 - FRAME), (100, 50, 50), (100, 90, 82), (10, 0, 10 - 2 - FRAME)],
)
def test_the_room_of_a_document(max_chars: int, max_doc: int, left: int | None) -> None:
    """The cap less the query and the frame, and at most what a document may have; 0 is no bound."""
    assert room("qq", max_chars, max_doc) == left


sizes = st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=8), min_size=1, max_size=6)
capacities = st.builds(
    Capacity,
    queries=st.sampled_from([1, 2, MANY]),
    documents=st.integers(1, 12),
    chars=st.sampled_from([0, 60, 200]),
    apart=st.sampled_from([None, "namespace"]),
)


@given(sizes, capacities)
def test_no_call_is_over_its_capacity(queries: list[list[int]], capacity: Capacity) -> None:
    """Whatever waits: every document is in one call, in order, and each call keeps every bound, but for one document
    that is too large by itself.
    """
    requests = [asked(f"q{n}", *lengths, namespace=str(n % 2)) for n, lengths in enumerate(queries)]
    made = calls(capacity, requests)
    sent: dict[str, list[str]] = {}
    for call in made:
        assert 1 <= len(call) <= capacity.queries
        assert 1 <= sum(len(part.documents) for part in call) <= capacity.documents
        if capacity.apart is not None:
            assert len({part.namespace for part in call}) == 1
        for part in call:
            assert part.documents
            sent.setdefault(part.query, []).extend(part.documents)
        frames = [len(part.query) + FRAME for part in call]
        if capacity.queries == 1:
            cost = frames[0] + sum(map(len, call[0].documents.values()))
        else:
            pairs = zip(frames, call, strict=True)
            cost = sum(frame + len(text) for frame, part in pairs for text in part.documents.values())
        assert not capacity.chars or cost <= capacity.chars or sum(len(part.documents) for part in call) == 1
    assert sent == {request.query: list(request.documents) for request in requests}


@given(
    st.dictionaries(
        st.text("abcdef", min_size=1, max_size=3), st.sampled_from([0.0, 0.5, 0.5, 1.0, 2.0, None]), min_size=1
    ),
    capacities,
    st.floats(0, 1),
)
def test_any_split_gives_the_same_order(scores: dict[str, float | None], capacity: Capacity, weight: float) -> None:
    """However the candidates are split into calls, and in whatever order these are answered, the merged order and
    scores are those of one call; equal scores go by id, and what is left out is so in any call.
    """
    request = RerankRequest("q", {id_: id_ * 9 for id_ in scores}, "c", "n")
    fused = [Candidate(id_, 1 / (rank + 1)) for rank, id_ in enumerate(scores)]
    parts = [part for call in calls(capacity, [request]) for part in call]
    kept = {id_: score for id_, score in scores.items() if score is not None}
    outcomes = [{id_: kept[id_] for id_ in part.documents if id_ in kept} for part in parts]

    def merged(outcomes: list[dict[str, float]]) -> list[Candidate]:
        said = ModelScores(Candidates(capacity).combine(request, outcomes), len(fused))
        candidates = [Candidate(each.id, each.score) for each in fused]
        return rank_by_model(candidates, Rerank(weight=weight), Run(Facts(), model=said))

    assert merged(outcomes) == merged(outcomes[::-1]) == merged([kept])
    ordered = merged([kept])
    assert {each.id for each in ordered} == kept.keys()
    assert ordered == sorted(ordered, key=lambda each: (-each.score, each.id))


def test_known_scores_are_part_of_the_verdict() -> None:
    """The candidates that needed no call are merged with those that did."""
    request = RerankRequest("q", {"c": "x"}, "c", "n", known={"a": 0.5})
    assert Candidates(Capacity()).combine(request, [{"c": 1.0}]) == {"a": 0.5, "c": 1.0}
    assert Candidates(Capacity()).combine(request, [{}]) == {"a": 0.5}


def test_a_part_ends_before_the_first_document_that_was_not_read() -> None:
    """Its scores are those of the parts and those known before; without any there is no outcome."""
    request = RerankRequest("q", {"b": "x", "c": "x", "d": "x"}, "c", "n", known={"a": 0.5})
    lost = BackendUnavailable("down")
    part = Candidates(Capacity()).partial(request, 2, [{"b": 1.0}], lost)
    assert part is not None
    assert (dict(part), part.unread, part.lost) == ({"a": 0.5, "b": 1.0}, "d", lost)
    known = Candidates(Capacity()).partial(request, 0, [], lost)
    assert known is not None
    assert (dict(known), known.unread) == ({"a": 0.5}, "b")
    assert Candidates(Capacity()).partial(asked("q", 1, 1), 0, [], lost) is None


def test_only_what_is_compared_is_never_shortened() -> None:
    """A chat model judges its candidates together; others judge a part as they judge all."""
    assert (Candidates(Capacity()).least, Candidates(Capacity()).divides) == (LEAST, True)
    assert (Candidates(Capacity(whole=True)).least, Candidates(Capacity(whole=True)).divides) == (LEAST, False)
    assert Candidates(CAPACITY).least is None


def test_a_call_stops_where_it_must() -> None:
    """Of a request that is shortened a call takes no more than its depth, from wherever it begins."""
    waiting = [Waiting(asked("a", *[1] * 9), 2, 5), Waiting(asked("b", *[1] * 9), 0, 4)]
    assert Candidates(Capacity(queries=MANY, documents=100)).select(waiting) == [3, 4]
    assert Candidates(Capacity(queries=MANY, documents=100, whole=True)).select(waiting) == [3, 4]


def test_a_tenant_is_a_namespace() -> None:
    """Queries of one namespace share what it gets of the reranker."""
    assert Candidates(Capacity()).tenant(asked("a", 1, namespace="mine")) == "mine"
