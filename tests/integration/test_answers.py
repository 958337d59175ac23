"""Answers through the running flow: what age and copies come to, how far pages reach, and queries that say little."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bench.kafka.broker import Broker
from tests.integration.deployment import Deployment
from tests.integration.searching import Ask, asking, searching

NOW = "2024-03-01T12:00:00Z"
MOMENT = datetime(2024, 3, 1, 12, tzinfo=UTC)
MATCHES = 260
REFLECTIONS = 1_001
"""One more than a leg is asked for at most."""


def document(id_: str, namespace: str, text: str, days: float, **fields: Any) -> dict[str, Any]:
    """A document of so many days before NOW."""
    created = (MOMENT - timedelta(days=days)).isoformat()
    return {"id": id_, "namespace": namespace, "text": text, "created_at": created, **fields}


DOCUMENTS = [
    document("guide of old", "fern", "How to repot a fern in spring.", 3650, accessed_at="2014-03-04T12:00:00Z"),
    document("guide of now", "fern", "How to repot ferns in spring.", 1, importance=5),
    document("tax", "fern", "The tax return is due in May.", 0.5),
    *(document(f"note {n}", "log", f"Lunch of day {n} was soup with bread.", n / 24) for n in range(40)),
    document("the lighthouse", "log", "The lighthouse keeper lost his silver key.", 90),
    document("copy of now", "copies", "The boiler was serviced by the plumber.", 0),
    document("copy of then", "copies", "the boiler  was serviced by the PLUMBER.", 7),
    document("else", "copies", "The cellar was painted.", 7),
    *(document(f"harbor {n}", "harbor", f"A harbor, number {n}.", n) for n in range(MATCHES)),
    document("insight", "mind", "Ferns like shade.", 3, type="reflection", cycle=9),
    document("later insight", "mind", "Soup is better with bread.", 1, type="reflection", cycle=2),
    document("plain", "mind", "Ferns like shade and water.", 2, cycle=1),
    *(
        document(f"old {n}", "dreams", "A dream.", 300, type="reflection", vector=[1] + [0] * 383)
        for n in range(REFLECTIONS)
    ),
    document("fresh", "dreams", "Of today.", 0, type="reflection", vector=[0, 1] + [0] * 382),
    document("ph", "short", "The pH of the soil.", 2),
    document("tv", "short", "The TV in the attic.", 2),
]


@pytest.fixture(scope="module")
def system(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The search flow over DOCUMENTS, with MiniLM, its late interaction, and no chat model."""
    unique = uuid.uuid4().hex[:8]
    picked = {"stages": ["vector", {"llm_rerank": {"enabled": True}}]}
    sections = {"recipes": {"picked": picked}}
    directory = tmp_path_factory.mktemp("answers")
    with searching(broker, directory, lambda word: f"{word}-{unique}", DOCUMENTS, sections) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def ask(system: Deployment) -> Ask:
    """Ask one query about NOW, and wait for its result."""
    one = asking(system, "fern")
    return lambda event: one({"now": NOW, **event} if "current_cycle" not in event else event)


def ids(result: dict[str, Any]) -> list[str]:
    """The results in order."""
    return [hit["id"] for hit in result["results"]]


# Age


def test_age_acts_on_the_models_score(ask: Ask) -> None:
    """The model, which prefers the old document, decides in `hybrid`; in `composite` time acts on what it says."""
    event = {"text": "how to repot a fern in spring"}
    hybrid = ask({**event, "recipe": "hybrid"})
    aged = ask({**event, "recipe": "composite", "overrides": {"composite": {"recency": 0.5}}})
    assert hybrid["reranked"] is aged["reranked"] is True
    assert ids(hybrid)[0] == "guide of old"
    assert ids(aged)[0] == "guide of now"
    assert ids(
        ask({**event, "recipe": "composite", "rerank": False, "overrides": {"composite": {"recency": 0.5}}})
    ) == ids(aged)


def test_the_best_candidate_ages_too(ask: Ask) -> None:
    """By `distance` a document of ten years is behind one of yesterday that says nearly the same."""
    event = {"text": "when is the time to repot a fern", "recipe": "distance"}
    ageless = {name: {"enabled": False} for name in ("weibull_decay", "importance_boost")}
    assert ids(ask({**event, "overrides": ageless}))[:2] == ["guide of old", "guide of now"]
    assert ids(ask(event))[:2] == ["guide of now", "guide of old"]


def test_a_distance_means_the_same_in_every_pool(ask: Ask) -> None:
    """`max_distance` drops what is far from the query and keeps what is near, whatever else is found."""
    event = {"text": "how to repot a fern in spring", "recipe": "vector"}
    scores = {hit["id"]: hit["score"] for hit in ask(event)["results"]}
    assert len(scores) == 3
    near = ask({**event, "overrides": {"max_distance": 0.5}})
    assert {hit["id"]: hit["score"] for hit in near["results"]} == {
        id_: score for id_, score in scores.items() if 1 - score <= 0.5
    }
    assert set(ids(near)) == {"guide of old", "guide of now"}
    assert near["total"] == 2


def test_decay_does_not_bury_the_answer(ask: Ask) -> None:
    """The only document that answers is first, though forty others are newer by months."""
    result = ask({"namespace": "log", "text": "who lost the silver key of the lighthouse", "recipe": "decay"})
    assert ids(result)[0] == "the lighthouse"
    assert {leg["name"] for leg in result["legs"]} == {"vector", "keyword"}


# Copies


def test_the_copy_stays_that_the_querys_time_asks_for(ask: Ask) -> None:
    """Of two copies of a text `composite` keeps the one from the time in the query; without a time the better one."""
    event = {"namespace": "copies", "recipe": "composite"}
    asked = ask({**event, "text": "when was the boiler serviced a week ago"})
    assert "copy of then" in ids(asked)
    assert "copy of now" not in ids(asked)
    timeless = ask({**event, "text": "when was the boiler serviced"})
    assert "copy of now" in ids(timeless)
    assert "copy of then" not in ids(timeless)


# How far pages reach


def test_the_fast_profile_says_that_there_may_be_more(ask: Ask) -> None:
    """Of more matches than a leg's candidates `total` is a lower bound, and says so; of fewer it is exact."""
    event = {"namespace": "harbor", "text": "harbor", "limit": 50}
    cut = ask({**event, "profile": "fast"})
    assert (cut["total"], cut["total_relation"], cut["has_more"]) == (100, "gte", True)
    second = ask(
        {**event, "profile": "fast", "cursor": cut["next_cursor"], "limit": 60, "explain": True, "debug": True}
    )
    assert (len(second["results"]), second["has_more"]) == (50, False)
    assert not set(ids(cut)) & set(ids(second))
    whole = ask({**event, "profile": "deep", "recipe": "keyword"})
    assert (whole["total"], whole["total_relation"]) == (MATCHES, "eq")


# Nothing to search by


@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
def test_blank_text_is_no_text(ask: Ask, text: str) -> None:
    """Beside filters it is a lookup's; alone the recipes that score without legs rank the newest documents."""
    result = ask({"namespace": "copies", "text": text, "recipe": "signals"})
    assert result["status"] == "ok"
    assert ids(result)[0] == "copy of now"
    assert any(hit["score"] > 0 for hit in result["results"])
    nothing = ask({"namespace": "copies", "text": text})
    assert (nothing["status"], nothing["results"]) == ("ok", [])
    assert any(said.startswith("no_terms") for said in nothing["warnings"])


def test_filters_alone_are_scored_by_signals(ask: Ask) -> None:
    """A recipe that scores without legs ranks what the filters leave: the newest first, with a score."""
    filters = [{"field": "text", "op": "exists", "value": True}]
    result = ask({"namespace": "copies", "filters": filters, "recipe": "signals"})
    assert (result["status"], ids(result)[0]) == ("ok", "copy of now")
    assert result["results"][0]["score"] > 0


def test_reflections_alone_are_listed(ask: Ask) -> None:
    """`reflections_only` is enough to ask by: the newest reflections, and nothing else."""
    result = ask({"namespace": "mind", "reflections_only": True})
    assert (result["status"], ids(result)) == ("ok", ["later insight", "insight"])


def test_all_reflections_are_ranked_where_recency_counts(ask: Ask) -> None:
    """There may be any number: the only fresh one of 1,002 is first, though it is the farthest from the query."""
    event = {"namespace": "dreams", "vector": [1] + [0] * 383, "reflections_only": True, "recipe": "signals"}
    by_recency = ask({**event, "overrides": {"reflections": {"recency_weight": 0.9}}})
    assert ids(by_recency)[0] == "fresh"
    assert (by_recency["total"], by_recency["total_relation"]) == (REFLECTIONS + 1, "eq")
    assert by_recency["warnings"] == []
    nearest = ask(event)
    assert (nearest["total"], nearest["total_relation"]) == (1000, "gte")
    assert nearest["warnings"] == ["there may be more reflections than the 1000 that were ranked"]


def test_reflections_count_in_cycles(ask: Ask) -> None:
    """With `current_cycle` their recency counts: of two that match alike the one of the later cycle is first."""
    event = {"namespace": "mind", "text": "what is better or like", "reflections_only": True, "current_cycle": 9}
    plain = ask({key: value for key, value in event.items() if key != "current_cycle"})
    by_cycle = ask(event)
    shift = {hit["id"]: hit["score"] for hit in by_cycle["results"]}
    cosine = {hit["id"]: hit["score"] for hit in plain["results"]}
    assert shift["insight"] - 0.9 * cosine["insight"] == pytest.approx(0.1)
    assert shift["later insight"] - 0.9 * cosine["later insight"] == pytest.approx(0.1 * 0.5 ** (7 / 50))


@pytest.mark.parametrize("recipe", [None, "keyword", "distance"])
def test_reflections_are_boosted_in_any_recipe(ask: Ask, recipe: str | None) -> None:
    """The query's `reflection_boost` multiplies their score, whether the recipe lists the stage or not."""
    event = {"namespace": "mind", "text": "ferns like shade", "recipe": recipe, "rerank": False}
    plain, boosted = ask(event), ask({**event, "reflection_boost": 3.0})
    before = {hit["id"]: hit["score"] for hit in plain["results"]}
    after = {hit["id"]: hit["score"] for hit in boosted["results"]}
    assert after["insight"] == pytest.approx(3 * before["insight"])
    assert after["plain"] == pytest.approx(before["plain"])


# What counts as missing


def test_empty_strings_are_missing(ask: Ask) -> None:
    """Empty names ask for nothing: the answer is the one without them."""
    event = {"text": "fern", "namespace": "fern"}
    empty = dict.fromkeys(("subject", "actor_type", "collection", "cursor", "profile", "recipe"), "")
    plain, same = ask(event), ask({**event, **empty})
    assert ids(same) == ids(plain)
    assert (same["profile"], same["provenance"]["recipe"]) == ("balanced", "hybrid")
    assert ask({"text": "fern", "namespace": ""})["status"] == "ok"


def test_a_selection_without_a_chat_model_is_skipped(ask: Ask) -> None:
    """The recipe's other stages answer, and the result says what was skipped."""
    result = ask({"text": "fern", "recipe": "picked"})
    assert (result["status"], len(result["results"])) == ("ok", 3)
    assert result["warnings"] == ["llm_rerank: no chat model is configured, the stage is skipped"]


@pytest.mark.parametrize(("text", "found"), [("what is the pH", "ph"), ("where is the tv", "tv")])
def test_keywords_of_two_letters_count(ask: Ask, text: str, found: str) -> None:
    """They lift the document that has them, in the distance recipe."""
    result = ask({"namespace": "short", "text": text, "recipe": "distance", "explain": True})
    overlaps = {
        hit["id"]: step["values"]["overlap"]
        for hit in result["results"]
        for step in hit["explanation"]["stages"]
        if step["stage"] == "keyword_boost"
    }
    assert overlaps == {id_: float(id_ == found) for id_ in ("ph", "tv")}
