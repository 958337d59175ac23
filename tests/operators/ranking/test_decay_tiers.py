"""The tiers of decay: which of global, destination, collection and source policy decides, field by field."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ranking.fusion import ResolvedDecay, resolve_decay
from schemas.recipes.fusion import Decay, DecayTier

PLACES = ("global", "destination", "collection", "source policy")
VALUES: dict[str, tuple[Any, ...]] = {
    "mode": ("step", "exponential", "step", "exponential"),
    "half_life_days": (1.0, 2.0, 3.0, 4.0),
    "step_threshold_days": (10.0, 20.0, 30.0, 40.0),
}
RESOLVED = {"mode": "mode", "half_life_days": "half_life", "step_threshold_days": "threshold"}


def tiers(*said: dict[str, Any]) -> tuple[DecayTier, ...]:
    """Tiers from the global one, a stage's own parameters, to the source policy's."""
    return (Decay(**said[0]), *(DecayTier(**each) for each in said[1:]))


@pytest.mark.parametrize("field", VALUES)
@pytest.mark.parametrize("says", [says for says in product([False, True], repeat=4) if any(says)])
def test_the_most_specific_tier_that_says_a_field_decides_it(field: str, says: tuple[bool, ...]) -> None:
    """For every set of tiers that say a field the last of global, destination, collection and source policy wins."""
    said = [{field: value} if it else {} for it, value in zip(says, VALUES[field], strict=True)]
    found = resolve_decay(tiers({"enabled": True, **said[0]}, *said[1:]), 7.0)
    last = max(place for place, it in enumerate(says) if it)
    assert found is not None
    assert getattr(found, RESOLVED[field]) == VALUES[field][last]


@pytest.mark.parametrize("places", list(product(range(4), repeat=3)))
def test_fields_are_decided_apart(places: tuple[int, int, int]) -> None:
    """A field that one tier says stands beside the fields of others, wherever each of the three is said."""
    said: list[dict[str, Any]] = [{}, {}, {}, {}]
    for place, (field, value) in zip(
        places, {"mode": "step", "half_life_days": 3.0, "step_threshold_days": 20.0}.items(), strict=True
    ):
        said[place][field] = value
    assert resolve_decay(tiers(*said), 7.0) == ResolvedDecay("step", 3.0, 20.0)


def test_zero_and_nothing_fall_through() -> None:
    """A tier that says 0, no mode and no switch leaves what a less specific one said."""
    empty = {"enabled": None, "mode": None, "half_life_days": 0, "step_threshold_days": 0}
    said = {"enabled": True, "mode": "step", "half_life_days": 2.0, "step_threshold_days": 9.0}
    assert resolve_decay(tiers(said, empty, empty, empty), 7.0) == ResolvedDecay("step", 2.0, 9.0)


def test_the_last_switch_decides() -> None:
    """A tier that is off turns off what more general ones turned on, and no half-life turns it on again."""
    aged, on, off = {"half_life_days": 3.0}, {"enabled": True}, {"enabled": False}
    for said in ([aged, off], [off, aged], [on, off], [off], [{**aged, **off}]):
        assert resolve_decay(tiers(*said), 7.0) is None
    assert resolve_decay(tiers(off, aged, on), 7.0) == ResolvedDecay("exponential", 3.0, 3.0)


@pytest.mark.parametrize("place", range(4), ids=PLACES)
@pytest.mark.parametrize("switch", [{"enabled": True}, {"half_life_days": 7.0}])
def test_any_tier_turns_it_on(place: int, switch: dict[str, Any]) -> None:
    """Decay is on where one tier, whichever, enables it or gives a half-life."""
    assert resolve_decay(tiers(*[switch if at == place else {} for at in range(4)]), 7.0) == ResolvedDecay(
        "exponential", 7.0, 7.0
    )


@pytest.mark.parametrize("place", range(4), ids=PLACES)
@pytest.mark.parametrize("said", [{"mode": "step"}, {"step_threshold_days": 3.0}, {"half_life_days": 0.0}, {}])
def test_a_mode_or_a_threshold_turns_nothing_on(place: int, said: dict[str, Any]) -> None:
    """Without a tier that enables it or gives a half-life decay is off."""
    assert resolve_decay(tiers(*[said if at == place else {} for at in range(4)]), 7.0) is None


@pytest.mark.parametrize("default", [7.0, 30.0])
def test_on_without_a_half_life_has_the_profiles(default: float) -> None:
    """The profile's half-life counts where no tier gives one, and is a step's threshold, too."""
    assert resolve_decay(tiers({"enabled": True}), default) == ResolvedDecay("exponential", default, default)
    assert resolve_decay(tiers({"enabled": True, "mode": "step"}), default) == ResolvedDecay("step", default, default)
    assert resolve_decay(tiers({"half_life_days": 3.0}), default) == ResolvedDecay("exponential", 3.0, 3.0)


def test_a_profile_without_decay_has_none() -> None:
    """Decay is off if the profile has no half-life, whatever the tiers say."""
    said = {"enabled": True, "mode": "step", "half_life_days": 2.0, "step_threshold_days": 9.0}
    assert resolve_decay(tiers(said, said, said, said), None) is None


def test_no_tier_is_off() -> None:
    """Without any tier there is no decay."""
    assert resolve_decay((), 7.0) is None


said_by_a_tier = st.fixed_dictionaries(
    {},
    optional={
        "enabled": st.booleans(),
        "mode": st.sampled_from(["step", "exponential", None]),
        "half_life_days": st.sampled_from([0.0, 1.0, 2.0]),
        "step_threshold_days": st.sampled_from([0.0, 5.0, 6.0]),
    },
)


@given(st.lists(said_by_a_tier, min_size=1, max_size=4), st.sampled_from([None, 7.0, 30.0]))
def test_a_tier_that_says_nothing_changes_nothing(said: list[dict[str, Any]], default: float | None) -> None:
    """An empty tier anywhere leaves what the others resolve to, and what is resolved has no 0 in it."""
    found = resolve_decay(tiers(*said), default)
    for place in range(1, len(said) + 1):
        assert resolve_decay(tiers(*said[:place], {}, *said[place:]), default) == found
    assert found is None or (found.half_life > 0 and found.threshold > 0)
