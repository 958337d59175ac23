"""Results and pools: what is said only if it is asked, what is recorded, and what goes first for want of room."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.caching.keys import state
from operators.query.cursor import After
from operators.query.in_flight import InFlight
from operators.query.result import pool
from operators.query.returned import READ
from operators.ranking.candidate import Leg
from operators.ranking.grouping import Grouping
from operators.ranking.run import ModelScores
from operators.stages.fuse import fuse_legs
from operators.text.analysis import analyse
from operators.text.passages import Matcher
from schemas.errors import Reason
from schemas.fields import unix_seconds
from schemas.pool import CandidatePool
from schemas.result import KEYWORD, VECTOR, LegStatus
from tests.operators.ranking.pools import keyword, leg, structured, vector
from tests.operators.samples import CURSORS, bound, query
from tests.operators.stages.test_publish import DENIAL, found, published

NOW = 1_700_000_000.0
POINTS: Mapping[str, Mapping[str, Any]] = {
    f"p{n}": {
        "id": f"doc-{n}",
        "text": f"lantern {n} " + "x" * 100,
        "created_at": f"2023-11-{10 - n:02d}T00:00:00Z",
        "edges": [{"to": "doc-0"}],
        "_content": n,
        "_version": 1,
    }
    for n in range(5)
}


def ranked(legs: list[Leg] | None = None, **event: Any) -> InFlight:
    """A query for which the legs found POINTS, ranked by its recipe, with all payloads fetched."""
    asked = query(**{"now": NOW, **event})
    found = [
        vector(*((f"p{n}", 0.9 - n / 10) for n in range(5)), payloads=POINTS),
        keyword(("p3", 4.0), ("p1", 2.0), payloads=POINTS),
    ]
    asked.outcome.legs = {each.name: each for each in (found if legs is None else legs)}
    asked = fuse_legs(asked)
    asked.outcome.payloads = {
        id_: payload
        for each in asked.outcome.legs.values()
        for id_, payload in zip(each.ids, each.payloads, strict=True)
    }
    return asked


# What is there only if it is asked for or true


@pytest.mark.parametrize("recipe", ["hybrid", "composite", "signals", "distance", "decay"])
def test_results_are_explained_only_if_asked(recipe: str) -> None:
    """With `explain` each result has its legs and stages, down to its score; without, no result has the field."""
    explained, plain = (published(ranked(recipe=recipe, explain=explain)) for explain in (True, False))
    for hit in explained["results"]:
        assert hit["explanation"]["stages"][-1]["output"] == hit["score"]
        assert hit["explanation"]["legs"].keys() == hit["legs"].keys()
        del hit["explanation"]
    assert explained == plain


@pytest.mark.parametrize(
    ("event", "reranked"),
    [
        ({"recipe": "hybrid"}, False),
        ({"recipe": "composite"}, False),
        ({"recipe": "distance"}, True),
        ({"recipe": "distance", "rerank": False}, True),
        ({"recipe": "distance", "reflections_only": True}, False),
    ],
)
def test_reranked_is_said_only_if_it_is_true(event: dict[str, Any], reranked: bool) -> None:
    """The field is there, and true, if a model or a distance stage changed a score; else it is missing."""
    answer = published(ranked(**event))
    assert ("reranked" in answer) == reranked
    assert answer.get("reranked", True) is True


def test_the_graph_is_a_backend_where_it_took_part() -> None:
    """Edges that changed a score are named beside the legs."""
    weighed: dict[str, Any] = {"recipe": "signals", "overrides": {"weighted": {"graph_weight": 0.5}}}
    assert published(ranked(**weighed))["backends_used"] == ["vector", "keyword", "graph"]
    assert published(ranked(recipe="signals"))["backends_used"] == ["vector", "keyword"]


def test_the_pool_is_there_only_if_asked() -> None:
    """A pool is as large as its answer: nobody gets one unasked."""
    assert not any("pool" in published(each) for each in (ranked(), ranked(explain=True)))
    assert "pool" in published(ranked(record=True))


def test_a_refusal_says_why_and_nothing_else() -> None:
    """By hand: its stage, its code and its reason, no results, no legs and no cursor."""
    denied = query()
    denied.asked = replace(denied.asked, denial=DENIAL)
    event = published(denied)
    assert (event["retrieval_stage"], event["denied"]) == ("policy", {"code": DENIAL.code, "reason": DENIAL.reason})
    assert (event["results"], event["legs"], event["next_cursor"], event["total"]) == ([], [], None, 0)
    assert "denied" not in published(query())


def test_the_next_page_begins_where_this_one_ends() -> None:
    """The cursor is the query's, in its state: with it the same query gets the next ranks; the last page has none."""
    first = found(count=12, limit=5)
    first.cache.scope = replace(first.cache.scope, watermark=("0:7",))
    pages = [published(first)]
    while (cursor := pages[-1]["next_cursor"]) is not None:
        assert CURSORS.read(cursor).state == state(first.cache.scope)
        asked = found(count=12, limit=5, cursor=cursor)
        assert bound(asked) == bound(first)
        asked.cache.scope = replace(asked.cache.scope, watermark=("0:7",))
        pages.append(published(asked))
    assert [[hit["rank"] for hit in page["results"]] for page in pages] == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [11, 12]]
    assert [hit["id"] for page in pages for hit in page["results"]] == [f"doc-{n}" for n in range(12)]
    assert [page["has_more"] for page in pages] == [True, True, False]
    assert {page["provenance"]["now"] for page in pages} == {pages[0]["provenance"]["now"]}
    assert pages[0]["provenance"]["index_watermark"] == ["0:7"]


def test_a_lookups_page_whose_records_were_removed_leads_on() -> None:
    """The next page begins behind them: what lies there isn't lost with what may not be seen."""
    ends = {"p0": After(9, 1), "p1": After(8, 1)}
    for kept in range(3):
        asked = query(text=None, subject="s", order_by={"field": "created_at", "direction": "desc"}, limit=2)
        asked.outcome.legs = {"structured": structured("p0", "p1", payloads=POINTS).at(range(kept))}
        asked = fuse_legs(asked)
        asked.outcome.payloads = {f"p{n}": POINTS[f"p{n}"] for n in range(kept)}
        asked.retrieval.ends, asked.retrieval.end, asked.outcome.more = ends, ends["p1"], True
        event = published(asked)
        assert len(event["results"]) == kept
        assert CURSORS.read(event["next_cursor"]).position == After(8, 1)
        assert not any("equal in the order" in warning for warning in event["warnings"])


# The pool


def recorded(asked: InFlight) -> dict[str, Any]:
    """The pool of a query's answer, which must validate."""
    found: dict[str, Any] = published(asked)["pool"]
    CandidatePool.model_validate(found)
    return found


def test_a_pool_by_hand() -> None:
    """The query as it was sent, its clock, and each leg's hits in its order, by the documents' own ids."""
    asked = ranked([vector(("p1", 0.8), ("p0", 0.7), payloads=POINTS), keyword()], record=True, limit=3)
    found = recorded(asked)
    assert unix_seconds(found.pop("now")) == NOW
    assert found == {
        "query": {"query_id": "q0", "text": "some text", "record": True, "limit": 3, "now": NOW},
        "legs": [
            {
                "name": "vector",
                "hits": [
                    {
                        "id": f"doc-{n}",
                        "score": score,
                        "payload": {
                            "text": POINTS[f"p{n}"]["text"],
                            "created_at": f"2023-11-{10 - n:02d}T00:00:00Z",
                            "edges": [{"to": "doc-0"}],
                            "_content": place,
                        },
                    }
                    for place, (n, score) in enumerate(((1, 0.8), (0, 0.7)))
                ],
            },
            {"name": "keyword", "hits": []},
        ],
    }


@pytest.mark.parametrize(
    "lost",
    [
        Leg(KEYWORD, LegStatus.TIMEOUT, reason=Reason.TIMEOUT),
        Leg(KEYWORD, LegStatus.FAILED, reason=Reason.UNAVAILABLE),
        Leg(KEYWORD, LegStatus.SKIPPED, reason=Reason.NO_TERMS),
    ],
)
def test_a_leg_that_did_not_answer_is_not_in_the_pool(lost: Leg) -> None:
    """A lost or unasked part is missing, and not an empty list."""
    names = [each["name"] for each in recorded(ranked([vector(("p0", 0.5)), lost], record=True))["legs"]]
    assert names == [VECTOR]


def test_no_field_of_the_index_is_in_the_pool() -> None:
    """A name that begins with an underscore is the index's own, at any point, whatever other tools keep under it. Of
    the content's fingerprint there is a number that says no more than which points have the same one.
    """
    odd = {"p0": {"_content": 7, "_other": {"a": 1}, "kept_": [1], "id": 7, "": None, "_fields": ["a"]}}
    (found,) = recorded(ranked([vector(("p0", 0.5), payloads=odd)], record=True))["legs"]
    assert found["hits"] == [{"id": "p0", "score": 0.5, "payload": {"kept_": [1], "": None, "_content": 0}}]


def test_a_pool_says_which_of_several_copies_has_most_fields() -> None:
    """By its place alone: how many fields there are would tell of those that are hidden."""
    copies = {"p0": {"_content": 7, "_fields": 40}, "p1": {"_content": 7, "_fields": 12}}
    (found,) = recorded(ranked([vector(("p0", 0.5), ("p1", 0.5), payloads=copies)], record=True))["legs"]
    assert [hit["payload"]["_fields"] for hit in found["hits"]] == [1, 0]


def test_a_pool_says_which_contents_are_the_same() -> None:
    """The content may be in fields that the pool does not have: offline the same documents are duplicates."""
    contents = {"p0": 2**62, "p1": 7, "p2": 2**62, "p3": None}
    same = {id_: {"text": "one text", "_content": content} for id_, content in contents.items()}
    same["p3"] = {"text": "one text"}
    found = recorded(ranked([vector(*((id_, 0.5) for id_ in contents), payloads=same)], record=True, recipe="vector"))
    hits = [(hit["id"], hit["payload"].get("_content")) for each in found["legs"] for hit in each["hits"]]
    assert hits == [("p0", 0), ("p1", 1), ("p2", 0), ("p3", 2)]


def test_a_pool_names_those_neighbours_that_it_has() -> None:
    """By their own ids, each in its place, so that offline the same question is before a document; of others it says
    nothing.
    """
    around: dict[str, dict[str, Any]] = {
        "p0": {"id": "one", "_neighbours": ["p9", "p1", "p0"]},
        "p1": {"id": "two", "_neighbours": "odd"},
    }
    (found,) = recorded(ranked([vector(("p0", 0.5), ("p1", 0.4), payloads=around)], record=True))["legs"]
    assert [hit["payload"].get("_neighbours") for hit in found["hits"]] == [["", "two", "one"], None]


def test_a_verdict_is_recorded_by_the_documents_own_ids() -> None:
    """A reranker's scores stand beside the legs; without a verdict there are none, an empty one is one."""
    asked = ranked(record=True)
    assert "rerank" not in recorded(asked)
    asked.outcome.rerank_scores = ModelScores({"p3": 0.5, "p0": -2.0}, 2, model="model")
    assert recorded(asked)["rerank"] == {"doc-3": 0.5, "doc-0": -2.0}
    asked.outcome.rerank_scores = ModelScores({}, 2, model="model")
    assert recorded(asked)["rerank"] == {}
    assert recorded(asked)["reranked_candidates"] == 2
    assert "unscored" not in recorded(asked)
    asked.outcome.rerank_scores = ModelScores({"p3": 0.5}, 2, unscored=frozenset({"p0"}), model="model")
    assert recorded(asked)["unscored"] == ["doc-0"]
    assert CandidatePool.model_validate(recorded(asked)).unscored == ["doc-0"]


@pytest.mark.parametrize("now", [NOW, NOW + 0.123, NOW + 0.123456, NOW + 1e-6, "2023-11-14T22:13:20.123456Z"])
def test_the_pools_clock_is_the_one_that_was_ranked_by(now: float | str) -> None:
    """Ages are computed again to the bit: the pool's time is the query's, and not one rounded."""
    asked = ranked(record=True, now=now)
    assert CandidatePool.model_validate(recorded(asked)).clock == asked.asked.now


def test_documents_of_one_id_are_told_apart() -> None:
    """Points whose documents have one id go by their own, in every leg and in the verdict."""
    payloads = {"p0": {"id": "x"}, "p1": {"id": "x"}, "p2": {}, "p3": {"id": "y"}}
    legs = [
        vector(("p1", 0.9), ("p0", 0.8), payloads=payloads),
        keyword(("p0", 3.0), ("p2", 2.0), ("p3", 2.0), ("p1", 1.0), payloads=payloads),
    ]
    asked = ranked(legs, record=True)
    asked.outcome.rerank_scores = ModelScores({"p0": 1.0, "p1": 2.0, "p3": 3.0}, 3, model="model")
    found = recorded(asked)
    assert [[hit["id"] for hit in each["hits"]] for each in found["legs"]] == [["p1", "p0"], ["p0", "p2", "y", "p1"]]
    assert found["rerank"] == {"p0": 1.0, "p1": 2.0, "y": 3.0}


@given(
    st.lists(st.sampled_from("abcd"), unique=True, min_size=1),
    st.lists(st.sampled_from("abcd"), unique=True),
    st.dictionaries(st.sampled_from("abcd"), st.sampled_from("abcd")),
)
def test_no_two_points_become_one(first: list[str], second: list[str], own: dict[str, str]) -> None:
    """Whatever the points and their documents are called, a pool has as many candidates as the legs had points."""
    payloads = {point: {"id": own[point]} if point in own else {} for point in "abcd"}
    legs = [
        leg(name, *((id_, 0.5) for id_ in ids), payloads=payloads) for name, ids in ((VECTOR, first), (KEYWORD, second))
    ]
    asked = query(record=True)
    asked.outcome.legs = {each.name: each for each in legs}
    found = [[hit["id"] for hit in each["hits"]] for each in pool(asked.asked, asked.outcome)["legs"]]
    called = dict(zip([*first, *second], [id_ for ids in found for id_ in ids], strict=True))
    assert len(set(called.values())) == len(called)
    assert found == [[called[id_] for id_ in ids] for ids in (first, second)]


def test_the_share_of_a_text_that_is_searched_counts_documents_of_groups() -> None:
    """A page's texts are searched for passages up to one bound together, those within groups included."""
    returned: dict[str, Any] = {"return": {"passages": 1}}
    asked = ranked(None, group_by="subject", group_size=3, **returned)
    for each in asked.outcome.candidates:
        each.payload = {**each.payload, "subject": "s"}
    asked.outcome.results = replace(asked.outcome.results, grouping=asked.asked.plan.grouping)
    text = "x " * (READ // 6)
    asked.outcome.payloads = {id_: {**payload, "text": f"{text}lamp"} for id_, payload in POINTS.items()}
    # A part with the words as they are written would be looked for.
    asked.retrieval.matcher = lambda: Matcher(
        analyse("lantern", query=True), lambda word: [word in {"lantern", "lamp"} or hash(word)]
    )
    (hit,) = published(asked)["results"]
    passages = [each["passages"][0] for each in (hit, *hit["group"]["results"])]
    assert [passage["highlights"] for passage in passages] == [[], [], []]
    asked.outcome.results = replace(asked.outcome.results, grouping=Grouping("subject", 2, "max"))
    (hit,) = published(asked)["results"]
    assert all(each["passages"][0]["highlights"] for each in (hit, *hit["group"]["results"]))
