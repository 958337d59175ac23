"""Policies, identity and the firewall in the configuration: defaults, contradictions, hashes."""

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas.errors import ConfigError
from schemas.recipes.fusion import DecayTier
from schemas.settings import Between, Settings
from schemas.settings import policies as policies_module
from schemas.settings.document import MAX_DEPTH
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


def test_nothing_said_allows_all() -> None:
    """Without a word a source may read everything, is known from the event, and the firewall is off."""
    policy = PolicySettings()
    assert policy.policy_for(None) == policy.policy_for("anyone") == SourcePolicy()
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
    assert settings.policy_for("web") == SourcePolicy(clearance="own-word")
    assert (
        settings.policy_for("Web")
        == settings.policy_for(None)
        == settings.policy_for("")
        == SourcePolicy(read=False, namespaces=["n"])
    )


def test_a_policy_bounds_overrides_and_decay() -> None:
    """Overrides name recipe parameters and bounds, decay is a tier."""
    policy = SourcePolicy.model_validate(
        {"overrides": {"score.alpha": {"max": 0.5}}, "decay": {"enabled": True, "half_life_days": 2}}
    )
    assert policy.overrides == {"score.alpha": Between(max=0.5)}
    assert policy.decay == DecayTier(enabled=True, half_life_days=2)


def test_identities_that_are_whole() -> None:
    """A header, or topics, with the word that says so."""
    assert IdentitySettings(by="header", header="x-source").header == "x-source"
    assert IdentitySettings(by="topic", topics={"q": "web"}).topics == {"q": "web"}


def test_a_namespaces_tier_is_a_known_one() -> None:
    """The tiers are four, in this order, and a namespace has one of them."""
    assert TIERS == get_args(Tier) == ("public", "internal", "confidential", "restricted")
    assert FirewallSettings(enabled=True, namespaces={"hr": "confidential"}).namespaces == {"hr": "confidential"}


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


# Files


def with_files(*files: Path, **sections: Any) -> Settings:
    """The least configuration with these files of policies."""
    return Settings.model_validate(
        {"qdrant": {"url": "http://q"}, "policies": {"files": [str(each) for each in files], **sections}}
    )


def refused_files(*files: Path, **sections: Any) -> str:
    """The message about these files."""
    with pytest.raises(ValidationError) as caught:
        with_files(*files, **sections)
    return str(caught.value)


def reread(settings: Settings) -> bool:
    """True if the files were others."""
    return settings.policies.read_files(settings.check_policy)


def mount(directory: Path, version: str, files: dict[str, str]) -> None:
    """Give the directory this content as Kubernetes does: by one link, which takes another's place."""
    inside = directory / f"..{version}"
    inside.mkdir(parents=True)
    for name, content in files.items():
        (inside / name).write_text(content)
        if not (directory / name).is_symlink():
            (directory / name).symlink_to(f"..data/{name}")
    (directory / "..new").symlink_to(inside.name)
    os.replace(directory / "..new", directory / "..data")


def test_files_have_further_sources(tmp_path: Path) -> None:
    """JSON and YAML, and all files of a directory; a source in none of them has the default policy."""
    (tmp_path / "a.json").write_text('{"a": {"namespaces": ["acme"], "deny": {"profiles": ["deep"]}}}')
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "b.yaml").write_text("b: {clearance: internal}\nno: {read: false}")
    (tmp_path / "more" / "c.yml").write_text("c: {decay: {half_life_days: 3}}")
    (tmp_path / "more" / "README.md").write_text("The tenants.")
    settings = with_files(tmp_path / "a.json", tmp_path / "more", sources={"own": {}})
    policies = settings.policies
    assert policies.policy_for("a") == SourcePolicy(namespaces=["acme"], deny=Deny(profiles=["deep"]))
    assert policies.policy_for("b") == SourcePolicy(clearance="internal")
    assert not policies.policy_for("no").read
    assert policies.policy_for("own") is policies.sources["own"]
    assert policies.policy_for("stranger") is policies.policy_for(None) is policies.default
    assert policies.listed.hides
    assert settings.unread_decay == ["policies.files"]


@given(POLICIES)
def test_a_policy_of_a_file_is_the_same_as_of_the_configuration(policy: SourcePolicy) -> None:
    """With all its keys, and with those alone that say something."""
    for given_ in (policy.model_dump(mode="json"), policy.model_dump(mode="json", exclude_defaults=True)):
        found = policies_module._of_json(json.dumps(given_).encode())
        assert found == SourcePolicy.model_validate(given_) == policy
        assert found.hash == policy.hash


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.json", '{"a": {"red": true}}', "a.json: a.red: no such key; did you mean read?"),
        ("a.json", '{"a": {"read": 2}}', "a.json: a.read: Input should be a valid boolean"),
        ("a.json", '{"a": {"filters": [{"field": "x"}]}}', "a.json: a.filters.0: one of eq, any_of"),
        ("a.json", '{"a": {"allowed_profiles": ["dep"]}}', "a.json: a.allowed_profiles: dep: not in profiles"),
        ("a.json", '{"a": {"reply_to": ["x"]}}', "a.json: a.reply_to: x: neither kafka.topics.results nor one of"),
        ("a.json", '{"a": {"namespaces": ["\\ud800"]}}', "a.json: a: str is not valid UTF-8"),
        ("a.json", '{"a": {"decay": {"half_life_days": NaN}}}', "a.json: a.decay.half_life_days: Input should be a"),
        ("a.json", '{"a": []}', "a.json: a: a mapping is expected"),
        ("a.json", '{"a": {}, "a": {}}', "a.json: 'a' is set twice"),
        ("a.json", '{"a": {"read": true, "read": false}}', "a.json: 'read' is set twice"),
        ("a.yaml", "a: {}\na: {}", "a.yaml: 'a' is set twice (line 2)"),
        ("a.json", '{"own": {}}', "a.json: own: another policy has this source"),
        ("a.json", '{"a": {}', "a.json: not JSON at line 1"),
        ("a.json", "[" * 100_000, "a.json: nested too deeply"),
        ("a.yaml", "a: " + "[" * 2 * MAX_DEPTH, f"a.yaml: nested deeper than {MAX_DEPTH} (line 1)"),
        ("a.yaml", "a: &x {}\nb: *x", "a.yaml: aliases aren't taken (line 2)"),
        ("a.json", "[]", "a.json: not a mapping of sections"),
        ("a.json", "{}", "a.json: no source is in it"),
        ("a.yaml", "", "a.yaml: no source is in it"),
        ("a.json", json.dumps({str(each): {"x": 1} for each in range(50)}), "a.json: 0.x: no such key"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, name: str, content: str, said: str) -> None:
    """With the source and the key, as the configuration's own problems are; never in part."""
    (tmp_path / name).write_text(content)
    told = refused_files(tmp_path / name, sources={"own": {}})
    assert f"{tmp_path}/{said}" in told
    assert len(told.splitlines()) < 30


def test_files_that_are_not_there_or_are_too_large_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory without policies, too: all sources would have the default policy."""
    assert f"policies.files: {tmp_path}/none.json: No such file" in refused_files(tmp_path / "none.json")
    assert f"policies.files: {tmp_path}: no file of .json, .yaml or .yml is in it" in refused_files(tmp_path)
    (tmp_path / "a.json").write_text('{"a": {}}')
    (tmp_path / "b.json").write_text('{"a": {}}')
    assert f"{tmp_path}/b.json: a: another policy has this source" in refused_files(tmp_path)
    monkeypatch.setattr(policies_module, "MAX_BYTES", 17)
    assert "policies.files: larger than 17 bytes in all" in refused_files(tmp_path)


def test_files_are_read_again_when_they_change(tmp_path: Path) -> None:
    """As a ConfigMap is mounted; what cannot be used is read once, and changes nothing."""
    mount(tmp_path, "1", {"a.json": '{"a": {"read": false}}', "b.json": '{"b": {}}'})
    settings = with_files(tmp_path)
    policies = settings.policies
    assert not reread(settings)
    mount(tmp_path, "2", {"a.json": '{"a": {"clearance": "internal"}}', "b.json": '{"b": {}, "c": {"read": false}}'})
    assert reread(settings)
    assert (policies.policy_for("a").clearance, policies.policy_for("c").read) == ("internal", False)
    for version, content in (("3", '{"a": {"red": 1}}'), ("4", ""), ("5", '{"b": {}}')):
        mount(tmp_path, version, {"a.json": content, "b.json": '{"b": {"read": false}}'})
        for _ in range(2):
            with pytest.raises(ConfigError, match=r"a\.json|b\.json"):
                reread(settings)
        assert (policies.policy_for("a").clearance, policies.policy_for("b").read) == ("internal", True)
    mount(tmp_path, "6", {"a.json": '{"a": {}}', "b.json": '{"b": {}}'})
    assert reread(settings)
    assert (policies.policy_for("a"), policies.policy_for("c")) == (SourcePolicy(), policies.default)
    (tmp_path / "a.json").unlink()
    assert reread(settings)
    assert policies.policy_for("a") is policies.default


def test_files_that_change_while_they_are_read_are_not_used(tmp_path: Path) -> None:
    """One file would be of before, and another of after the change."""
    (tmp_path / "a.json").write_text('{"a": {"read": false}}')
    (tmp_path / "b.json").write_text('{"b": {}}')
    settings = with_files(tmp_path)
    (tmp_path / "a.json").write_text('{"a": {}}')

    def change(*_: object) -> None:
        (tmp_path / "b.json").write_text('{"b": {"read": false}}')

    with pytest.raises(ConfigError, match="they changed while they were read"):
        settings.policies.read_files(change)
    assert not settings.policies.policy_for("a").read
    assert reread(settings)
    assert settings.policies.policy_for("a").read
    assert not settings.policies.policy_for("b").read


def test_many_policies_take_little_more_memory_than_their_files(tmp_path: Path) -> None:
    """They are kept as they were written."""
    many = {f"source-{each}": {"namespaces": [f"tenant-{each}"], "clearance": "internal"} for each in range(2000)}
    (tmp_path / "a.json").write_text(json.dumps(many))
    with_files(tmp_path)
    tracemalloc.start()
    try:
        settings = with_files(tmp_path)
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < 4 * (tmp_path / "a.json").stat().st_size
    assert settings.policies.policy_for("source-7").namespaces == ["tenant-7"]
