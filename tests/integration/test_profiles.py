"""Profiles and reflections in the running flow, and what a query may not ask."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from bench.kafka.broker import Broker
from schemas import headers as names
from tests.integration.deployment import Deployment
from tests.integration.searching import Ask, asking, searching
from tests.integration.test_recipes import DOCUMENTS, NOW, ids

SECTIONS: dict[str, Any] = {
    "profiles": {"balanced": {"recipe": "rrf"}, "narrow": {"over_sample": 1, "rerank_top": 0}},
    "limits": {"timeout": 60, "overrides": {"rrf.k": {"min": 1, "max": 60}, "reflections.reflection_boost": {}}},
}


@pytest.fixture(scope="module")
def system(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The search flow over DOCUMENTS, with profiles of its own and bounds on overrides."""
    unique = uuid.uuid4().hex[:8]
    directory = tmp_path_factory.mktemp("profiles")
    with searching(broker, directory, lambda word: f"{word}-{unique}", DOCUMENTS, SECTIONS) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def ask(system: Deployment) -> Ask:
    """Ask one query about NOW and wait for its result."""
    one = asking(system, "diary")
    return lambda event: one({"now": NOW, **event})


def test_a_query_that_says_nothing_is_balanced(ask: Ask) -> None:
    """The default profile's recipe and reranker answer, and the result says which profile it was."""
    result = ask({"text": "cat"})
    assert (result["profile"], result["provenance"]["recipe"], result["reranked"]) == ("balanced", "rrf", True)


def test_fast_never_embeds(ask: Ask) -> None:
    """The profile `fast` searches by keyword alone and reranks nothing; that is no loss."""
    result = ask({"text": "cat", "profile": "fast"})
    assert result["status"] == "ok"
    assert result["backends_used"] == ["keyword"]
    assert {leg["name"]: leg["reason"] for leg in result["legs"]} == {"vector": "profile", "keyword": None}
    assert not result["semantic_unavailable"]
    assert "reranked" not in result


def test_fast_takes_the_querys_own_vector(ask: Ask) -> None:
    """A vector in the event needs no embedding: it is searched by."""
    result = ask({"text": "cat", "vector": [1.0] + [0.0] * 383, "profile": "fast"})
    assert result["backends_used"] == ["vector", "keyword"]


def test_deep_and_ones_own_profiles_are_profiles(ask: Ask) -> None:
    """The shipped `deep` and a profile of the deployment's answer under their names; a narrow one sees less."""
    assert ask({"text": "cat", "profile": "deep"})["profile"] == "deep"
    narrow = ask({"text": "cat vet", "profile": "narrow", "limit": 1})
    assert narrow["profile"] == "narrow"
    assert [leg["candidates"] for leg in narrow["legs"]] == [1, 1]


def test_an_unknown_profile_is_balanced_with_a_warning(ask: Ask) -> None:
    """A profile that isn't configured is answered as `balanced`, which the answer says."""
    result = ask({"text": "cat", "profile": "turbo"})
    assert result["profile"] == "balanced"
    assert "turbo" in result["warnings"][0]


def test_reflections_can_be_left_out(ask: Ask) -> None:
    """With `include_reflections: false` no leg returns one; by default they are documents like others."""
    assert "sum" in ids(ask({"text": "cats need food"}))
    without = ask({"text": "cats need food", "include_reflections": False})
    assert "sum" not in ids(without)
    assert without["total"] > 0


def test_reflections_alone_are_ranked_by_cosine(ask: Ask) -> None:
    """With `reflections_only` every reflection and nothing else is a result, its score the cosine, not reranked."""
    result = ask({"text": "cats need food", "reflections_only": True})
    assert ids(result) == ["sum"]
    (hit,) = result["results"]
    assert hit["score"] == hit["legs"]["vector"]["score"]
    assert "reranked" not in result


def test_reflections_without_a_vector_are_the_newest(ask: Ask) -> None:
    """Reflections come newest first at score 0, from the structured leg, if nothing embeds."""
    result = ask({"text": "cats", "reflections_only": True, "profile": "fast"})
    assert [(hit["id"], hit["score"]) for hit in result["results"]] == [("sum", 0.0)]
    assert result["backends_used"] == ["structured"]


@pytest.mark.parametrize("recipe", ["signals", "hybrid", "rrf"])
def test_reflections_can_be_lifted(ask: Ask, recipe: str) -> None:
    """`reflection_boost` multiplies their final score, in any recipe."""
    event = {"text": "cats need a shelter", "recipe": recipe, "rerank": False}
    plain, lifted = ask(event), ask({**event, "reflection_boost": 3.0})
    before = {hit["id"]: hit["score"] for hit in plain["results"]}
    after = {hit["id"]: hit["score"] for hit in lifted["results"]}
    assert after["sum"] == 3.0 * before["sum"]
    assert {id_: score for id_, score in after.items() if id_ != "sum"} == {
        id_: score for id_, score in before.items() if id_ != "sum"
    }


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"recipe": "nope"}, "recipe: not configured"),
        ({"overrides": {"rrf": {"k": 0.5}}}, "overrides.rrf.k: must be at least 1 and at most 60 (0.5)"),
        ({"overrides": {"rrf": {"weights": {}}}}, "overrides.rrf.weights: a query may not change this"),
        ({"overrides": {"rrf": {"k": "x"}}}, "overrides.rrf.k: must be at least 1"),
        ({"overrides": {"dedupe": 3}}, "overrides.dedupe"),
        ({"reflection_boost": -1.0}, "reflection_boost: "),
        ({"now": NOW, "current_cycle": 3}, "now and current_cycle"),
        ({"reflections_only": True, "include_reflections": False}, "leave nothing"),
        ({"explain": "yes"}, "explain"),
        ({"overrides": []}, "overrides"),
    ],
)
def test_what_may_not_be_asked_is_a_dead_letter(system: Deployment, event: dict[str, Any], said: str) -> None:
    """An unknown recipe, an override out of its bounds and contradictions are refused, naming field and value."""
    query_id = f"refused-{uuid.uuid4()}"
    before = len(system.places())
    system.ask([{"query_id": query_id, "text": "cat", **event}])
    ended = system.output_records(before + 1, settled=False)
    (letter,) = [each for each in ended if query_id.encode() in each.value.get("raw", b"")]
    assert letter.kind == "invalid"
    assert said in letter.headers[names.MESSAGE].decode()
