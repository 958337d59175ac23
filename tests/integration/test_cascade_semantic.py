"""Stage 4 and the table of profiles, through the running flow: how deep each leg is asked, and what embeds."""

import math

import pytest

from tests.integration.cascade import EVERY_LEG, Json, System, ids, leg
from tests.integration.cascade_backends import Backends, vector

pytest_plugins = ["tests.integration.cascade_running"]
pytestmark = pytest.mark.slow

QUERY: Json = {"namespace": "log", "text": "harbor of the lantern"}
VECTOR = [1.0] + [0.0] * 383


def test_how_deep_each_leg_is_asked(kitchen: System) -> None:
    """max(limit, over-sample), and 3 * limit with a stage on distance that runs, at most 1,000, for every leg."""
    distance = {"recipe": "distance"}
    depths: list[tuple[Json, int]] = [
        ({"profile": "fast", "limit": 7}, 100),
        ({"profile": "fast", "limit": 200}, 200),
        ({"profile": "fast", "limit": 200, **distance}, 600),
        ({}, 100),
        ({"limit": 33}, 100),
        ({"limit": 150}, 150),
        ({"limit": 33, **distance}, 100),
        ({"limit": 34, **distance}, 102),
        ({"limit": 34, **distance, "rerank": False}, 102),
        ({"profile": "deep"}, 500),
        ({"profile": "deep", "limit": 200}, 500),
        ({"profile": "deep", "limit": 200, **distance}, 600),
        ({"profile": "widest", "limit": 200, **distance}, 1000),
        ({"recipe": "decay", "limit": 5}, 100),
    ]
    for number, (event, depth) in enumerate(depths):
        kitchen.qdrant.forget()
        answer = kitchen.ask({**QUERY, **event, "text": f"harbor {number}", "debug": True})
        # The reranker's searches of the tokens are none of a leg's.
        searches = [search for name in ("dense", "bm25", "structured") for search in kitchen.qdrant.searches(name)]
        assert [search["limit"] for search in searches] == [depth] * len(searches), event
        assert len(searches) == len([each for each in answer["legs"] if each["status"] == "ok"])
        assert answer["debug"]["decay"]["over_sample_factor"] == math.ceil(depth / (event.get("limit", 0) or 20))


@pytest.mark.parametrize("profile", ["fast", "balanced", "deep"])
def test_the_legs_of_a_profile(kitchen: System, profile: str) -> None:
    """Keyword and structured always; the vector leg for a text too but in `fast`, which never embeds."""
    text, own, looked_up = kitchen.answers(
        [
            {**QUERY, **EVERY_LEG, "profile": profile, "debug": True},
            {**QUERY, **EVERY_LEG, "profile": profile, "vector": VECTOR, "debug": True},
            {"namespace": "log", "actor_type": "user", "profile": profile},
        ]
    )
    assert leg(looked_up, "structured") == ("ok", None)
    for answer in (text, own):
        assert leg(answer, "keyword") == leg(answer, "structured") == ("ok", None)
        assert (answer["status"], answer["semantic_unavailable"]) == ("ok", False)
    assert leg(own, "vector") == ("ok", None)
    assert leg(text, "vector") == (("skipped", "profile") if profile == "fast" else ("ok", None))
    assert "embed" not in own["debug"]["stages_hit"]


def test_fast_never_embeds(vault: System, backends: Backends) -> None:
    """Not for a search, not for a reranker, not for a recipe of the vector leg; the others embed a text once."""
    backends.texts.clear()
    for more in ({}, {"recipe": "decay"}, {"recipe": "vector"}, {"reflections_only": True}, {"vector": vector("x")}):
        vault.ask({"text": "a quick lantern", "profile": "fast", **more})
    assert backends.texts == []
    for profile in ("balanced", "deep"):
        vault.ask({"text": f"lantern, {profile}", "profile": profile})
    vault.ask({"text": "lantern, deep", "profile": "deep", "limit": 3})
    assert backends.texts == ["lantern, balanced", "lantern, deep"]


@pytest.mark.parametrize(("profile", "half_life"), [("fast", None), ("balanced", 7.0), ("deep", 30.0)])
def test_the_decay_of_a_profile(kitchen: System, profile: str, half_life: float | None) -> None:
    """Never in `fast`; of 7 days in `balanced` and 30 in `deep`; where the recipe has none there is none."""
    event = {**QUERY, "profile": profile, "debug": True, "explain": True, "vector": VECTOR, "now": 1_702_000_000}
    decay, hybrid = kitchen.answers([{**event, "recipe": name} for name in ("decay", "hybrid")])
    assert decay["debug"]["decay"]["half_life_days"] == half_life
    assert decay["debug"]["decay"]["mode"] == ("none" if half_life is None else "exponential")
    assert hybrid["debug"]["decay"]["mode"] == "none"
    values = decay["results"][0]["explanation"]["stages"][0]["values"]
    assert values.get("half_life") == half_life


def test_decay_is_in_the_merge_with_keywords(kitchen: System) -> None:
    """Candidates that the keyword leg found decay as those of the vector leg do."""
    event = {**QUERY, "recipe": "decay", "explain": True, "now": 1_702_000_000, "limit": 100, "rerank": False}
    hits = [hit for hit in kitchen.ask(event)["results"] if "keyword" in hit["legs"]]
    assert hits
    for hit in hits:
        stage, *_ = hit["explanation"]["stages"]
        assert stage["stage"] == "decay"
        assert stage["output"] == pytest.approx(0.7 * stage["values"]["cosine"] + 0.3 * stage["values"]["weight"])


@pytest.mark.parametrize(("profile", "top"), [("fast", 0), ("balanced", 50), ("deep", 200)])
def test_how_many_a_profile_reranks(vault: System, backends: Backends, profile: str, top: int) -> None:
    """None, 50 or 200 of the candidates are read by the reranker."""
    if ids(vault.ask({"namespace": "many", "subject": "m"})) == []:
        vault.write(
            [
                {"id": f"m{n}", "namespace": "many", "subject": "m", "text": f"lantern no. {n}", "labels": ["live"]}
                for n in range(210)
            ]
        )
    backends.reranker.requests.clear()
    event = {"namespace": "many", "text": f"lantern {profile}", "vector": vector("x"), "profile": profile}
    answer = vault.ask({**event, "limit": 200})
    read = [document for body in backends.reranker.requests for document in body["documents"]]
    assert len(read) == len(set(read)) == top
    assert answer.get("reranked") == (True if top else None)


@pytest.mark.parametrize(
    ("text", "reason"), [("the broken lantern", "unavailable"), ("the stalling lantern", "timeout")]
)
def test_an_embedder_that_fails_or_is_late(vault: System, text: str, reason: str) -> None:
    """Keyword and structured legs answer all the same: partial, `semantic_unavailable`, and why."""
    merged, all_legs = vault.answers([{"text": text}, {"text": text, **EVERY_LEG}])
    for answer in (merged, all_legs):
        assert (answer["status"], answer["semantic_unavailable"]) == ("partial", True)
        assert {"stage": "embed", "reason": reason} in answer["degraded"]
        assert leg(answer, "vector") == ("skipped", reason)
        assert leg(answer, "keyword") == ("ok", None)
        assert answer["results"]
    assert leg(all_legs, "structured") == ("ok", None)


def test_without_an_embedder(plain: System) -> None:
    """Texts are answered by the legs that need no vector, with the reason; an own vector, or `fast`, lacks nothing."""
    text, all_legs, own, fast = plain.answers(
        [
            {"text": "sea"},
            {"text": "sea", **EVERY_LEG},
            {"text": "sea", "vector": VECTOR},
            {"text": "sea", "profile": "fast"},
        ]
    )
    for answer in (text, all_legs):
        assert (answer["status"], answer["semantic_unavailable"]) == ("partial", True)
        assert answer["degraded"] == [{"stage": "embed", "reason": "no_embedder"}]
        said = "The text was not embedded: no embedder is configured, and the query has no vector."
        assert answer["semantic_unavailable_reason"] == said
        assert leg(answer, "vector") == ("skipped", "no_embedder")
    assert set(ids(text)) == {"the", "runs", "shore"}
    assert set(ids(all_legs)) == {"the", "runs", "shore", "sister"}
    for answer in (own, fast):
        assert (answer["status"], answer["semantic_unavailable"], answer["degraded"]) == ("ok", False, [])
        assert "semantic_unavailable_reason" not in answer


def test_punctuation_alone_is_no_failure(plain: System) -> None:
    """Without an embedder there is nothing to search by then: no results, with a warning; some recipes need none."""
    for text in ("?!", "...", "\u2014"):
        nothing, newest = plain.answers([{"text": text}, {"text": text, "recipe": "signals"}])
        assert (nothing["status"], nothing["results"], nothing["degraded"]) == ("ok", [], [])
        assert [said.split(":")[0] for said in nothing["warnings"]] == ["no_terms"]
        assert newest["status"] == "ok"
        assert newest["results"]


def test_the_stage_that_answered(kitchen: System) -> None:
    """`semantic` or `structured` where that leg alone had hits, else `hybrid_merge`."""
    stages: dict[str, Json] = {
        "hybrid_merge": {"text": "harbor river"},
        "semantic": {"text": "zebra"},
        "structured": {"actor_type": "user", "limit": 21},
    }
    for stage, event in stages.items():
        assert kitchen.ask({"namespace": "log", **event})["retrieval_stage"] == stage
    keyword = kitchen.ask({"namespace": "log", "text": "harbor", "profile": "fast", "limit": 21})
    nothing = kitchen.ask({"namespace": "log", "text": "xylophone", "profile": "fast"})
    assert keyword["retrieval_stage"] == nothing["retrieval_stage"] == "hybrid_merge"
