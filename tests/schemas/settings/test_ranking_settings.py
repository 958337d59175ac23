"""Profiles, recipes, decay and bounds on overrides: what is shipped, what goes over it, and errors by their paths."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.errors import ConfigError
from schemas.query import QueryEvent
from schemas.recipes import SHIPPED, Recipe
from schemas.recipes.fusion import DecayTier
from schemas.settings import Between, Profile, Settings, load

LEAST: dict[str, Any] = {"qdrant": {"url": "http://q"}}
CHAT: dict[str, Any] = {"chat": {"kind": "openai", "url": "http://c/v1", "model": "m"}}
FAST = Profile(semantic=False, over_sample=100, caches=["exact"], rerank_top=0, half_life_days=None)
BALANCED = Profile(semantic=True, over_sample=100, caches=["exact", "semantic"], rerank_top=50, half_life_days=7.0)
DEEP = Profile(over_sample=500, caches=["semantic"], rerank_top=200, half_life_days=30.0)


def settings(**sections: Any) -> Settings:
    """The least configuration with these sections."""
    return load(None, {**LEAST, **sections})


def varied(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    """Set these variables of the environment."""
    for name, value in variables.items():
        monkeypatch.setenv(f"RANKSTREAM_{name}", value)


# Profiles


def test_three_profiles_are_shipped() -> None:
    """Without a word there are `fast`, `balanced` and `deep`, by the table."""
    assert settings().profiles == {"fast": FAST, "balanced": BALANCED, "deep": DEEP}


def test_what_is_said_of_a_profile_goes_over_the_shipped_one() -> None:
    """A part of a shipped profile can be changed alone; a profile of one's own has the defaults of `balanced`."""
    own = {"fast": {"recipe": "keyword"}, "deep": {"half_life_days": None}, "own": {"rerank_top": 7}}
    profiles = settings(profiles=own).profiles
    assert profiles["fast"] == FAST.model_copy(update={"recipe": "keyword"})
    assert profiles["deep"] == DEEP.model_copy(update={"half_life_days": None})
    assert profiles["own"] == BALANCED.model_copy(update={"rerank_top": 7})
    assert profiles["balanced"] == BALANCED


def test_the_environment_goes_over_the_files_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable changes one setting of one profile; what the file says beside it stays, and so do the shipped ones."""
    path = tmp_path / "rankstream.yaml"
    path.write_text(yaml.safe_dump({**LEAST, "profiles": {"balanced": {"recipe": "signals", "over_sample": 9}}}))
    varied(
        monkeypatch,
        PROFILES__BALANCED__RECIPE="rrf",
        PROFILES__FAST__SEMANTIC="true",
        PROFILES__OWN__HALF_LIFE_DAYS="2.5",
    )
    profiles = load(path).profiles
    assert profiles["balanced"] == BALANCED.model_copy(update={"recipe": "rrf", "over_sample": 9})
    assert profiles["fast"] == FAST.model_copy(update={"semantic": True})
    assert profiles["own"] == BALANCED.model_copy(update={"half_life_days": 2.5})
    assert profiles["deep"] == DEEP


def test_a_profile_needs_a_recipe_that_there_is() -> None:
    """A profile's recipe is a shipped one or one of the configuration's."""
    mine = {"mine": {"stages": ["rrf"]}}
    assert settings(profiles={"balanced": {"recipe": "mine"}}, recipes=mine).profiles["balanced"].recipe == "mine"


# Recipes


def test_a_file_defines_recipes_beside_the_shipped_ones(tmp_path: Path) -> None:
    """A recipe in the YAML has its name; the shipped ones are there, except for one that is defined again."""
    path = tmp_path / "rankstream.yaml"
    path.write_text(
        """
qdrant: {url: "http://q"}
recipes:
  mine:
    stages:
      - score: {alpha: 0.3}
      - dedupe
      - weibull_decay: {enabled: true, lambda: 30}
    max_distance: 0.9
  rrf:
    stages: [rrf]
"""
    )
    recipes = load(path).recipes
    stages = [{"score": {"alpha": 0.3}}, "dedupe", {"weibull_decay": {"enabled": True, "lambda": 30}}]
    assert recipes["mine"].name == "mine"
    assert recipes["mine"].hash == Recipe.parse("x", {"stages": stages, "max_distance": 0.9}).hash
    assert recipes["rrf"].hash == Recipe.parse("x", {"stages": ["rrf"]}).hash
    assert {name: recipes[name] for name in SHIPPED if name != "rrf"} == {
        name: recipe for name, recipe in SHIPPED.items() if name != "rrf"
    }


def test_a_whole_section_of_recipes_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """As JSON, over the file's of the same name."""
    varied(monkeypatch, RECIPES='{"mine": {"stages": ["rrf"]}}')
    recipes = settings(recipes={"mine": {"stages": ["dbsf"]}, "other": {"stages": ["dbsf"]}}).recipes
    assert [recipes[name].fusion.name for name in ("mine", "other")] == ["rrf", "dbsf"]


@pytest.mark.parametrize("fusion", ["rrf", "score", "dbsf"])
def test_one_leg_may_have_all_the_weight(fusion: str) -> None:
    """Also one of recorded pools alone."""
    weights: tuple[dict[str, float], ...] = ({}, {"vector": 0}, {"vector": 0, "keyword": 0, "of_a_pool": 1})
    for parameters in (
        *({"weights": each} for each in weights),
        {"weights": {"vector": 0, "keyword": 0}, "fuzzy": 1.0},
    ):
        settings(recipes={"mine": {"stages": [{fusion: parameters}]}})


ASKING = {
    "read": {"stages": ["rrf", {"temporal": {"extractor": "chat"}}]},
    "told": {"stages": ["score", {"temporal": {"extractor": "chat"}}]},
}


@pytest.mark.parametrize("name", ASKING)
def test_a_recipe_that_asks_a_chat_model_needs_one(name: str) -> None:
    """A selection alone is skipped without one."""
    assert name in settings(recipes={name: ASKING[name]}, **CHAT).recipes
    picked = {"stages": ["score", "temporal", {"llm_rerank": {"enabled": True}}]}
    assert not settings(recipes={"picked": picked}).recipes["picked"].asks_chat


# Decay, and what a query may change


def test_parts_of_results_are_called_as_in_a_query() -> None:
    """`return` in a profile and in a policy, which the earlier name leads to."""
    said = {"return": {"text": 20, "passages": 2}}
    found = settings(profiles={"own": said}, policies={"default": said})
    event = QueryEvent.model_validate({"query_id": "q", "text": "a", **said})
    assert found.profiles["own"].returned == found.policies.default.returned == event.returned
    assert found.profiles["own"].model_dump()["return"] == found.policies.default.model_dump()["return"]
    with pytest.raises(ConfigError) as caught:
        settings(profiles={"own": {"returned": {"text": 20}}}, policies={"default": {"returned": {"text": 20}}})
    assert str(caught.value).splitlines() == [
        "profiles.own.returned: no such key; did you mean return?",
        "policies.default.returned: no such key; did you mean return?",
    ]


def test_a_destination_has_a_tier_of_decay() -> None:
    """The tier of a destination that there is."""
    said = {"default": {"enabled": True, "mode": "step", "half_life_days": 3, "step_threshold_days": 1.5}}
    tier = DecayTier(enabled=True, mode="step", half_life_days=3.0, step_threshold_days=1.5)
    assert settings(decay={"destinations": said}).decay.destinations == {"default": tier}
    assert settings().decay.destinations == {}


def test_a_tier_of_decay_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable sets one field of one destination's tier, as of any other section."""
    varied(
        monkeypatch,
        DECAY__DESTINATIONS__DEFAULT__HALF_LIFE_DAYS="3",
        DECAY__DESTINATIONS__DEFAULT__ENABLED="true",
    )
    assert settings().decay.destinations == {"default": DecayTier(enabled=True, half_life_days=3.0)}


def test_bounds_on_overrides() -> None:
    """Missing, all may be changed; listed, those within the bounds; an empty list is none."""
    listed = {"score.alpha": {"min": 0.2, "max": 0.8}, "max_distance": {"max": 1}, "dedupe.limit": {}}
    assert settings().limits.overrides is None
    assert settings(limits={"overrides": {}}).limits.overrides == {}
    assert settings(limits={"overrides": listed}).limits.overrides == {
        "score.alpha": Between(min=0.2, max=0.8),
        "max_distance": Between(max=1.0),
        "dedupe.limit": Between(),
    }
    settings(limits={"overrides": {"weibull_decay.lambda": {"min": 1}, "max_distance": {}}})
