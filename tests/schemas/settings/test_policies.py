"""Policies, identity and the firewall in the configuration: defaults, contradictions, hashes."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas.recipes.fusion import DecayTier
from schemas.settings import Between
from schemas.settings.policies import (
    TIERS,
    Deny,
    FirewallSettings,
    IdentitySettings,
    PolicySettings,
    SourcePolicy,
    Tier,
)

NAMES = st.lists(st.sampled_from(["a", "b", "c"]), unique=True)
POLICIES = st.builds(
    SourcePolicy,
    read=st.booleans(),
    **dict.fromkeys(("destinations", "namespaces", "allowed_profiles", "retrieval_modes", "blocked_labels"), NAMES),
    deny=st.builds(Deny, destinations=NAMES, profiles=NAMES),
    clearance=st.sampled_from([None, "public", "restricted", "own"]),
    overrides=st.sampled_from([None, {}, {"score.alpha": {"min": 0.5}}]),
    decay=st.sampled_from([None, DecayTier(), DecayTier(enabled=True, half_life_days=3)]),
)


def refusal(section: type[SourcePolicy | IdentitySettings | FirewallSettings | PolicySettings], **values: Any) -> str:
    """The message about a section with these values."""
    with pytest.raises(ValidationError) as caught:
        section.model_validate(values)
    return str(caught.value)


def test_nothing_said_allows_all() -> None:
    """Without a word a source may read everything, is known from the event, and the firewall is off."""
    policy = PolicySettings()
    assert policy.of(None) == policy.of("anyone") == SourcePolicy()
    assert SourcePolicy().model_dump(exclude={"read", "deny", "overrides", "decay", "clearance", "returned"}) == {
        name: []
        for name in (
            "destinations",
            "collections",
            "namespaces",
            "operations",
            "retrieval_modes",
            "allowed_profiles",
            "reply_to",
            "filters",
            "hidden_fields",
            "blocked_labels",
            "required_labels",
        )
    }
    assert SourcePolicy().read
    assert policy.identity == IdentitySettings(by="event")
    assert not FirewallSettings().enabled


def test_a_source_has_its_own_policy_or_the_default() -> None:
    """A source in the list has that policy and nothing of the default's; every other one has the default."""
    settings = PolicySettings.model_validate(
        {"default": {"read": False, "namespaces": ["n"]}, "sources": {"web": {"clearance": "own-word"}}}
    )
    assert settings.of("web") == SourcePolicy(clearance="own-word")
    assert settings.of("Web") == settings.of(None) == settings.of("") == SourcePolicy(read=False, namespaces=["n"])


def test_a_policy_bounds_overrides_and_decay() -> None:
    """Overrides name recipe parameters and bounds, decay is a tier; a parameter that isn't one is an error."""
    policy = SourcePolicy.model_validate(
        {"overrides": {"score.alpha": {"max": 0.5}}, "decay": {"enabled": True, "half_life_days": 2}}
    )
    assert policy.overrides == {"score.alpha": Between(max=0.5)}
    assert policy.decay == DecayTier(enabled=True, half_life_days=2)
    assert "not STAGE.PARAMETER of a recipe" in refusal(SourcePolicy, overrides={"score.beta": {}})


@pytest.mark.parametrize("values", [{"destinations": "a"}, {"namespace": ["a"]}, {"deny": {"allowed_profiles": []}}])
def test_a_mistake_is_never_a_policy_that_allows_all(values: dict[str, Any]) -> None:
    """A list that is none and a misspelt name are errors at their paths, and no value is repeated."""
    message = refusal(SourcePolicy, **values)
    assert next(iter(values)) in message
    assert "input_value" not in message


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"by": "header"}, "by: header needs header"),
        ({"by": "topic"}, "by: topic needs topics"),
        ({"by": "event", "header": "x-source"}, "header is set, but by: event doesn't use it"),
        ({"topics": {"q": "web"}}, "topics is set, but by: event doesn't use it"),
        ({"by": "topic", "topics": {"q": "web"}, "header": "h"}, "header is set, but by: topic doesn't use it"),
        ({"by": "header", "topics": {"q": "web"}}, "needs header; topics is set, but by: header doesn't use it"),
        ({"by": "header", "header": ""}, "at least 1 character"),
        ({"by": "cookie"}, "'event', 'header' or 'topic'"),
    ],
)
def test_an_identity_is_whole(values: dict[str, Any], said: str) -> None:
    """A way of knowing a source has all that it needs, and nothing that it doesn't use."""
    assert said in refusal(IdentitySettings, **values)


def test_identities_that_are_whole() -> None:
    """A header, or topics, with the word that says so."""
    assert IdentitySettings(by="header", header="x-source").header == "x-source"
    assert IdentitySettings(by="topic", topics={"q": "web"}).topics == {"q": "web"}


def test_a_namespaces_tier_is_a_known_one() -> None:
    """The tiers are four, in this order, and a namespace has one of them."""
    assert TIERS == get_args(Tier) == ("public", "internal", "confidential", "restricted")
    assert FirewallSettings(namespaces={"hr": "confidential"}).namespaces == {"hr": "confidential"}
    assert "namespaces.hr" in refusal(FirewallSettings, namespaces={"hr": "secret"})


@given(POLICIES, POLICIES)
def test_policies_have_one_hash_if_they_are_equal(one: SourcePolicy, other: SourcePolicy) -> None:
    """The hash tells policies apart that differ in what can change an answer, and is the same for equal ones."""
    first, second = (each.model_copy(update={"reply_to": []}) for each in (one, other))
    assert (one.hash == other.hash) == (first == second)
    assert one.hash == SourcePolicy.model_validate(one.model_dump()).hash


def test_a_hash_is_the_same_in_every_process() -> None:
    """The hash of the policy that says nothing is a SHA-256, whatever the order in which overrides were written."""
    written = {"rrf.k": {"min": 1}, "score.alpha": {"max": 1}}
    turned = dict(reversed(written.items()))
    hashes = {SourcePolicy.model_validate({"overrides": each}).hash for each in (written, turned)}
    assert len(hashes) == 1
    assert len(hashes.pop()) == 64
