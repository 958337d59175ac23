"""Profiles, recipes, decay and bounds on overrides: what is shipped, what goes over it, and errors by their paths."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.errors import ConfigError
from schemas.recipes import SHIPPED, Recipe
from schemas.recipes.fusion import DecayTier
from schemas.settings import Between, Profile, Settings, load

LEAST: dict[str, Any] = {"qdrant": {"url": "http://q"}}
CHAT: dict[str, Any] = {"chat": {"kind": "openai", "url": "http://c/v1", "model": "m"}}
CANARY = "canary-7c21"

FAST = Profile(semantic=False, over_sample=100, caches=["exact"], rerank_top=0, half_life_days=None)
BALANCED = Profile(
    recipe="hybrid", semantic=True, over_sample=100, caches=["exact", "semantic"], rerank_top=50, half_life_days=7.0
)
DEEP = Profile(over_sample=500, caches=["semantic"], rerank_top=200, half_life_days=30.0)


def settings(**sections: Any) -> Settings:
    """The least configuration with these sections."""
    return load(None, {**LEAST, **sections})


def refusal(**sections: Any) -> str:
    """The message about a configuration with these sections."""
    with pytest.raises(ConfigError) as caught:
        settings(**sections)
    return str(caught.value)


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


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        ({"over_sample": 1001}, "profiles.deep.over_sample: Input should be less than or equal to 1000"),
        ({"over_sample": -1}, "profiles.deep.over_sample: Input should be greater than or equal to 0"),
        ({"rerank_top": 1001}, "profiles.deep.rerank_top: Input should be less than or equal to 1000"),
        ({"rerank_top": -1}, "profiles.deep.rerank_top: Input should be greater than or equal to 0"),
        ({"half_life_days": 0}, "profiles.deep.half_life_days: Input should be greater than 0"),
        ({"half_life_days": 2e6}, "profiles.deep.half_life_days: Input should be less than or equal to 1000000"),
        ({"half_life_days": float("nan")}, "profiles.deep.half_life_days: "),
        ({"caches": ["disk"]}, "profiles.deep.caches.0: Input should be 'exact' or 'semantic'"),
        ({"oversample": 5}, "profiles.deep.oversample: no such key"),
        ({"semantic": "maybe"}, "profiles.deep.semantic: "),
        (5, "profiles.deep: a mapping is expected"),
        (None, "profiles.deep: a mapping is expected"),
    ],
)
def test_a_wrong_profile_is_named_by_path_and_bound(profile: Any, said: str) -> None:
    """The setting's path and the bound that it breaks are in the error."""
    assert refusal(profiles={"deep": profile}).startswith(said)


def test_a_profile_needs_a_recipe_that_there_is() -> None:
    """A profile's recipe is a shipped one or one of the configuration's."""
    assert "profiles.balanced.recipe" in refusal(profiles={"balanced": {"recipe": "nope"}})
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


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        ({"stages": [{"score": {"alpha": 2}}]}, ("score.alpha", "Input should be less than or equal to 1")),
        ({"stages": ["score", {"dedupe": {"limits": 3}}]}, ("dedupe.limits", "no such key; did you mean limit?")),
        ({"stages": ["score", "rrf"]}, ("only the first may be a fusion",)),
        ({"stages": ["nope"]}, ("no such stage",)),
        ({"stages": []}, ("a list of 1 to 32 stages",)),
        ({"stages": ["score"], "max_distance": -1}, ("max_distance", "from 0 to 1000000")),
        (["score"], ("a mapping with `stages` is expected",)),
    ],
)
def test_a_wrong_recipe_is_named_by_path_and_bound(recipe: Any, said: tuple[str, ...]) -> None:
    """The error says which recipe it is, which of its stages and parameters, and the bound."""
    message = refusal(recipes={"good": {"stages": ["rrf"]}, "mine": recipe})
    assert message.startswith("recipes")
    assert "mine" in message
    assert all(part in message for part in said)


def test_every_wrong_recipe_is_named_at_once() -> None:
    """Two wrong recipes are one error with both, beside what else is wrong."""
    wrong = {"stages": [{"score": {"alpha": 2}}]}
    message = refusal(recipes={"first": wrong, "second": wrong}, threads=0)
    assert all(part in message for part in ("first", "second", "threads"))


@pytest.mark.parametrize(
    "sections",
    [
        {"recipes": {"mine": {"stages": [{"score": {"normaliser": CANARY}}]}}},
        {"recipes": {"mine": CANARY}},
        {"recipes": {"mine": {"stages": [CANARY]}}},
        {"profiles": {"balanced": {"recipe": CANARY}}},
        {"profiles": {"balanced": CANARY}},
        {"limits": {"overrides": {"score.alpha": {"min": CANARY}}}},
        {"decay": {"destinations": {"default": {"mode": CANARY}}}},
    ],
)
def test_no_value_is_repeated(sections: dict[str, Any]) -> None:
    """As everywhere in the configuration an error names the place and never says what stands there."""
    assert CANARY not in refusal(**sections)


ASKING = {
    "read": {"stages": ["rrf", {"temporal": {"extractor": "chat"}}]},
    "told": {"stages": ["score", {"temporal": {"extractor": "chat"}}]},
}


@pytest.mark.parametrize("name", ASKING)
def test_a_recipe_that_asks_a_chat_model_needs_one(name: str) -> None:
    """Without a chat model such a recipe is an error with its name; a selection alone is skipped without one."""
    message = refusal(recipes={name: ASKING[name]})
    assert name in message
    assert "chat.kind is none" in message
    assert name in settings(recipes={name: ASKING[name]}, **CHAT).recipes
    picked = {"stages": ["score", "temporal", {"llm_rerank": {"enabled": True}}]}
    assert not settings(recipes={"picked": picked}).recipes["picked"].asks_chat


def test_all_recipes_that_lack_a_chat_model_are_named() -> None:
    """Each of several is in the one error."""
    message = refusal(recipes=ASKING)
    assert all(name in message for name in ASKING)


# Decay, and what a query may change


def test_a_destination_has_a_tier_of_decay() -> None:
    """The tier of a destination that there is; an error with the name of one that there isn't."""
    said = {"default": {"enabled": True, "mode": "step", "half_life_days": 3, "step_threshold_days": 1.5}}
    tier = DecayTier(enabled=True, mode="step", half_life_days=3.0, step_threshold_days=1.5)
    assert settings(decay={"destinations": said}).decay.destinations == {"default": tier}
    assert settings().decay.destinations == {}
    message = refusal(decay={"destinations": {"dairy": {"half_life_days": 3.0}, "default": {}}})
    assert message.endswith("decay.destinations: dairy: not in qdrant.destinations")


def test_a_tier_of_decay_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable sets one field of one destination's tier, as of any other section."""
    varied(
        monkeypatch,
        DECAY__DESTINATIONS__DEFAULT__HALF_LIFE_DAYS="3",
        DECAY__DESTINATIONS__DEFAULT__ENABLED="true",
    )
    assert settings().decay.destinations == {"default": DecayTier(enabled=True, half_life_days=3.0)}


@pytest.mark.parametrize(
    ("tier", "said"),
    [
        (
            {"half_life_days": -1},
            "decay.destinations.default.half_life_days: Input should be greater than or equal to 0",
        ),
        ({"mode": "linear"}, "decay.destinations.default.mode: Input should be 'exponential' or 'step'"),
        ({"halflife": 1}, "decay.destinations.default.halflife: no such key; did you mean half_life_days?"),
    ],
)
def test_a_wrong_tier_is_named_by_path_and_bound(tier: Any, said: str) -> None:
    """The path and the bound are in the error."""
    assert refusal(decay={"destinations": {"default": tier}}) == said


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
    message = refusal(limits={"overrides": {"score.alpha": {"least": 0}}})
    assert message == "limits.overrides.score.alpha.least: no such key; there are max, min"


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"score.alfa": {}}, "not STAGE.PARAMETER"),
        ({"scores.alpha": {}}, "not STAGE.PARAMETER"),
        ({"alpha": {}}, "not STAGE.PARAMETER"),
        ({"score.alpha": {"min": 0.8, "max": 0.2}}, "min is above max"),
    ],
)
def test_a_bound_on_nothing_is_an_error(overrides: dict[str, Any], said: str) -> None:
    """A parameter that a query may change must exist, within bounds that leave something."""
    message = refusal(limits={"overrides": overrides})
    assert message.startswith("limits.overrides")
    assert said in message
    settings(limits={"overrides": {"weibull_decay.lambda": {"min": 1}, "max_distance": {}}})
