"""Results in groups, through both flows, with the caches on: over HTTP to the stand-in, and with the engine in the
process. The judge is a plain reading of the documents.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson
import pytest

from bench.kafka.broker import Broker
from flows.cli.rank import PoolRanker
from schemas.settings import load
from tests.integration.cascade import AskTogether, over
from tests.integration.permitted import TIERS

pytestmark = pytest.mark.slow

Json = dict[str, Any]

DIMENSION: Final = 4
PARENTS: Final = 60
NAMESPACES: Final = ("north", "south")
WORDS: Final = ("amber", "birch", "cedar", "delta", "ember", "fjord")
SECTIONS: Final[Json] = {
    "embedder": {"kind": "none"},
    "rerank": {"kind": "none"},
    "cache": {"watermark_timeout": 10.0},
    "firewall": {"enabled": True},
    "policies": {"sources": {"clerk": {"clearance": "internal"}}},
    "profiles": {
        "parents": {"group_by": "parent", "group_size": 2},
        "sums": {"group_by": "parent", "group_score": "sum"},
    },
}
QDRANT: Final[Json] = {"dimension": DIMENSION, "indexes": {"parent": "keyword", "page": "integer"}, "timeout": 20}


def corpus() -> list[Json]:
    """Documents of a few large and many small parents, some without one, in two namespaces, of all tiers."""
    draw = random.Random(45)
    documents = []
    for number in range(700):
        parent = f"p{min(int(draw.expovariate(0.06)), PARENTS - 1)}"
        document = {
            "id": f"d{number}",
            "namespace": draw.choice(NAMESPACES),
            "text": f"{' '.join(draw.choices(WORDS, k=5))} {number}",
            "vector": [round(draw.gauss(0, 1), 4) for _ in range(DIMENSION)],
            "classification": draw.choice(TIERS),
            "page": number % 7,
        }
        documents.append(document if draw.random() < 0.1 else {**document, "parent": parent})
    return documents


CORPUS: Final = corpus()


@pytest.fixture(scope="module", params=["server", "engine"])
def ask(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AskTogether]:
    """Ask queries together, and get their results in their order."""
    directory = tmp_path_factory.mktemp(request.param)
    broker: Broker | None = request.getfixturevalue("broker") if request.param == "server" else None
    with over(broker, directory, {**SECTIONS, "qdrant": QDRANT}, CORPUS, NAMESPACES[0]) as together:
        yield together


def pages(ask: AskTogether, event: Json) -> list[Json]:
    """Every page of a query."""
    found = [ask([event])[0]]
    while found[-1]["next_cursor"] is not None:
        found += ask([{**event, "cursor": found[-1]["next_cursor"]}])
    return found


def visible(event: Mapping[str, Any]) -> list[Json]:
    """The documents that a query may see."""
    tiers = TIERS[:2] if event.get("source") == "clerk" else TIERS[:1]
    there = (each for each in CORPUS if each["namespace"] == event.get("namespace", NAMESPACES[0]))
    return [each for each in there if each["classification"] in tiers]


def cosine(document: Json, vector: Sequence[float]) -> float:
    """The cosine of a document's vector and another."""
    own = document["vector"]
    dot = sum(one * other for one, other in zip(own, vector, strict=True))
    return float(dot / (sum(each**2 for each in own) ** 0.5 * sum(each**2 for each in vector) ** 0.5))


def best_groups(event: Json) -> list[tuple[str | None, str]]:
    """The groups of what a query by vector may see, best first: each one's key and its best document."""
    nearest = sorted(visible(event), key=lambda each: -cosine(each, event["vector"]))
    first: dict[str, tuple[str | None, str]] = {}
    for each in nearest:
        first.setdefault(each.get("parent", f"alone {each['id']}"), (each.get("parent"), each["id"]))
    return list(first.values())


def queries() -> list[Json]:
    """Queries by vector, of both namespaces and both sources."""
    draw = random.Random(46)
    return [
        {
            "vector": [round(draw.gauss(0, 1), 3) for _ in range(DIMENSION)],
            "recipe": "vector",
            "namespace": namespace,
            "group_by": "parent",
            "limit": limit,
            **({"source": "clerk"} if clerk else {}),
        }
        for namespace in NAMESPACES
        for clerk in (True, False)
        for limit in (5, 20, 200)
    ]


def test_each_group_is_one_result_of_its_best_document(ask: AskTogether) -> None:
    """The groups of a query by vector are those of a plain reading of all documents that it may see, in their order;
    a page is full where there are so many groups, and a total that says so is exact.
    """
    events = queries()
    for event, answer in zip(events, ask(events), strict=True):
        expected = best_groups(event)
        found = [(hit["group"]["key"], hit["id"]) for hit in answer["results"]]
        assert found == expected[: len(found)]
        assert len(found) == min(event["limit"], len(expected)), event
        assert answer["total"] >= len(found)
        assert answer["total_relation"] != "eq" or answer["total"] == len(expected)
        assert [hit["rank"] for hit in answer["results"]] == list(range(1, len(found) + 1))


def test_pages_are_one_list_of_groups(ask: AskTogether) -> None:
    """No group is on two pages, the pages are those of one list, and each counts all groups."""
    event = {**queries()[0], "limit": 7}
    found = pages(ask, event)
    keys = [(hit["group"]["key"], hit["id"]) for page in found for hit in page["results"]]
    assert len(found) > 2
    assert keys == best_groups(event)[: len(keys)]
    assert {page["total"] for page in found} == {len(keys)}
    assert [page["has_more"] for page in found] == [True] * (len(found) - 1) + [False]


@pytest.mark.parametrize("score", ["max", "sum", "avg"])
def test_groups_are_those_of_the_ungrouped_candidates(ask: AskTogether, score: str) -> None:
    """Of a merged ranking: a group has the candidates of its key, best first, `group_size` of them are returned, and
    its score is the combination of theirs, which the explanation says.
    """
    event: Json = {"text": "amber cedar", "vector": [1.0, 0.5, -0.5, 0.2], "limit": 200, "explain": True}
    grouped, pool = ask([{**event, "group_by": "parent", "group_size": 3, "group_score": score, "record": True}, event])
    # The pool of the grouped query has candidates beyond those of the other one, whose scores are the same.
    own = {hit["id"]: hit for hit in pool["results"]}
    combine: Mapping[str, Callable[[list[float]], float]] = {
        "max": max,
        "sum": sum,
        "avg": lambda scores: sum(scores) / len(scores),
    }
    assert [hit["score"] for hit in grouped["results"]] == sorted(
        (hit["score"] for hit in grouped["results"]), reverse=True
    )
    whole = 0
    for hit in grouped["results"]:
        group = hit["group"]
        assert len(group["results"]) == min(2, group["count"] - 1)
        members = [hit, *group["results"]]
        assert {each["payload"].get("parent") for each in members} == {group["key"]}
        step = hit["explanation"]["stages"][-1]
        assert (step["stage"], step["output"], step["values"]["count"]) == ("group", hit["score"], group["count"])
        scores = [step["input"], *(each["score"] for each in group["results"])]
        assert scores == sorted(scores, reverse=True)
        if group["count"] == len(members):
            whole += 1
            assert hit["score"] == pytest.approx(combine[score](scores))
        assert all(each["text"] is not None for each in members)
    assert whole > 3
    assert len(own) > grouped["total"] > 20
    assert sum(hit["group"]["count"] for hit in grouped["results"]) >= len(own)


def test_no_group_shows_a_document_that_the_query_may_not_see(ask: AskTogether) -> None:
    """Documents of other namespaces and higher tiers have the same parents, and are in no group, counted or shown."""
    events: list[Json] = [
        {**event, "group_size": 50, "limit": 200, **({"text": word} if word else {})}
        for event in queries()
        for word in (*WORDS, None)
    ]
    shown = 0
    # Twice: the second answers are the caches'.
    for _ in range(2):
        for event, answer in zip(events, ask(events), strict=True):
            allowed = {each["id"]: each for each in visible(event)}
            for hit in answer["results"]:
                members = [hit, *hit["group"]["results"]]
                assert {each["id"] for each in members} <= allowed.keys()
                assert {allowed[each["id"]].get("parent") for each in members} == {hit["group"]["key"]}
                there = [each for each in allowed.values() if each.get("parent") == hit["group"]["key"]]
                assert hit["group"]["key"] is None or hit["group"]["count"] <= len(there)
                shown += len(members)
            assert answer["removed_by_firewall"] == 0
    assert shown > 1000


def test_caches_tell_groupings_apart(ask: AskTogether) -> None:
    """A repeated query is answered from the cache, groups included; another field, size or score has its own answer."""
    event: Json = {"text": "delta", "vector": [0.3, 0.1, -1.0, 0.4], "limit": 10}
    groupings: list[Json] = [
        {},
        {"group_by": "parent"},
        {"group_by": "page"},
        {"group_by": "parent", "group_size": 2},
        {"group_by": "parent", "group_size": 0},
        {"group_by": "parent", "group_score": "sum"},
    ]
    first = [ask([{**event, **grouping}])[0] for grouping in groupings]
    again = [ask([{**event, **grouping}])[0] for grouping in groupings]
    assert [each["retrieval_stage"] for each in first] == ["hybrid_merge"] * len(groupings)
    assert [each["retrieval_stage"] for each in again] == ["exact_cache"] * len(groupings)
    for one, other in zip(first, again, strict=True):
        assert one["results"] == other["results"]
    assert ["group" in each["results"][0] for each in first] == [False, True, True, True, False, True]
    assert first[0]["results"] == first[4]["results"]
    assert {type(hit["group"]["key"]) for hit in first[2]["results"]} == {int}


def test_a_profile_groups_and_a_lookup_does_not(ask: AskTogether) -> None:
    """A profile's grouping is its queries'; a lookup gives every document, and refuses a grouping of its own."""
    vector = {"vector": [0.3, 0.1, -1.0, 0.4], "recipe": "vector"}
    by_profile, plain, own, lookup = ask(
        [
            {**vector, "profile": "parents"},
            {**vector, "profile": "parents", "group_size": 0},
            {**vector, "group_by": "parent", "group_size": 2},
            {"profile": "parents", "filters": [{"field": "page", "op": "eq", "value": 1}]},
        ]
    )
    assert [hit["group"] for hit in by_profile["results"]] == [hit["group"] for hit in own["results"]]
    assert not any("group" in hit for hit in [*plain["results"], *lookup["results"]])


def test_an_order_is_one_of_groups(ask: AskTogether) -> None:
    """With `order_by` the same groups come in the order of a field of their best documents, page by page."""
    event = {**queries()[0], "limit": 9, "group_size": 2}
    plain, ordered = (
        [hit for page in pages(ask, {**event, **more}) for hit in page["results"]]
        for more in ({}, {"order_by": {"field": "page", "direction": "desc"}})
    )
    assert [hit["id"] for hit in ordered] == [
        hit["id"] for hit in sorted(plain, key=lambda hit: -hit["payload"]["page"])
    ]
    assert {hit["id"]: hit["group"] for hit in ordered} == {hit["id"]: hit["group"] for hit in plain}


def test_min_relevance_counts_groups(ask: AskTogether) -> None:
    """Only documents that fit are in groups; a group none of whose documents fits is no result."""
    event = {**queries()[0], "group_size": 50, "limit": 200}
    (whole,) = ask([event])
    least = sorted(hit["relevance"] for hit in whole["results"])[len(whole["results"]) // 2]
    (fitting,) = ask([{**event, "min_relevance": least}])
    kept = [hit["group"]["key"] for hit in whole["results"] if hit["relevance"] >= least]
    assert [hit["group"]["key"] for hit in fitting["results"]] == kept
    assert fitting["total"] == len(kept)
    members = [each for hit in fitting["results"] for each in (hit, *hit["group"]["results"])]
    assert min(each["relevance"] for each in members) >= least


def test_a_recorded_pool_is_grouped_again(ask: AskTogether) -> None:
    """Offline the same groups come out of the recorded candidates, with the same scores and explanations."""
    event: Json = {
        "text": "ember fjord",
        "vector": [0.3, 0.1, -1.0, 0.4],
        "limit": 20,
        "record": True,
        "explain": True,
        "group_by": "parent",
        "group_size": 3,
        "group_score": "sum",
    }
    (answer,) = ask([event])
    settings = load(None, {**SECTIONS, "qdrant": {**QDRANT, "url": "http://qdrant"}})
    again = PoolRanker.of(settings, None, explain=True)(orjson.dumps(answer))
    assert [hit["id"] for hit in again["results"]] == [hit["id"] for hit in answer["results"]]
    for one, other in zip(again["results"], answer["results"], strict=True):
        assert one["score"] == other["score"]
        assert (one["group"]["key"], one["group"]["count"]) == (other["group"]["key"], other["group"]["count"])
        assert [each["id"] for each in one["group"]["results"]] == [each["id"] for each in other["group"]["results"]]
        assert one["explanation"] == other["explanation"]
    assert again["total"] == answer["total"]
