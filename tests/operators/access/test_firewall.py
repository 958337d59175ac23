"""The firewall's check of one record, and whose guard a query gets."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.access.firewall import AccessFilter, access_filter, visible
from schemas.settings.policies import TIERS, FirewallSettings, SourcePolicy

GUARD = AccessFilter("acme", ("public", "internal"), blocked=("draft", "old"), required=("checked", "legal"))


def permitted(**changes: Any) -> bool:
    """True if GUARD permits a record that differs so from one that it permits."""
    return GUARD.permits({"namespace": "acme", "labels": ["legal", "checked", "red"], **changes})


def test_a_record_within_everything_is_permitted() -> None:
    """The right namespace, a visible tier, no blocked label and all required ones are enough."""
    assert permitted()
    assert permitted(classification="internal")
    assert permitted(text="draft", tier="restricted")


@pytest.mark.parametrize("namespace", ["other", "", None, ["acme"], 1])
def test_another_namespace_is_removed(namespace: Any) -> None:
    """A record of another namespace, or of what is no namespace, is removed, whatever else it is."""
    assert not permitted(namespace=namespace)
    assert not GUARD.permits({"labels": ["legal", "checked"]})


@pytest.mark.parametrize("blocked", ["draft", "old"])
def test_any_blocked_label_removes(blocked: str) -> None:
    """One blocked label is enough, beside whatever others."""
    assert not permitted(labels=["legal", "checked", blocked])
    assert not permitted(labels=["legal", "checked", blocked, 7, None])


@pytest.mark.parametrize(
    ("classification", "allowed"),
    [
        (None, True),
        ("public", True),
        ("internal", True),
        ("confidential", False),
        ("restricted", False),
        ("Public", False),
        ("", False),
        ("secret", False),
        (["public"], False),
        ([], False),
        (0, False),
        (True, False),
        ({"public": 1}, False),
    ],
)
def test_a_tier_above_the_clearance_is_removed(classification: Any, allowed: bool) -> None:
    """Null is public; a tier above, an unknown one and what is no string are removed."""
    assert permitted(classification=classification) == allowed


@pytest.mark.parametrize(
    "labels", [["legal"], ["checked"], [], None, "legal", 7, {"legal": 1, "checked": 1}, [["legal"]]]
)
def test_every_required_label_must_be_there(labels: Any) -> None:
    """One of two required labels isn't enough, and what is neither a string nor a list holds none."""
    assert not permitted(labels=labels)


def test_labels_may_be_one_string() -> None:
    """A single string is one label, for blocked and for required ones; it is never taken apart."""
    assert AccessFilter("acme", ("public",), required=("legal",)).permits({"namespace": "acme", "labels": "legal"})
    assert not AccessFilter("acme", ("public",), blocked=("legal",)).permits({"namespace": "acme", "labels": "legal"})
    assert AccessFilter("acme", ("public",), blocked=("l",)).permits({"namespace": "acme", "labels": "legal"})


@pytest.mark.parametrize(
    ("clearance", "tiers"),
    [
        (None, ["public"]),
        ("public", ["public"]),
        ("internal", ["public", "internal"]),
        ("confidential", ["public", "internal", "confidential"]),
        ("restricted", list(TIERS)),
    ],
)
def test_a_clearance_sees_what_is_below_it(clearance: str | None, tiers: list[str]) -> None:
    """A clearance sees its tier and those below; without one, public alone."""
    assert list(visible(clearance)) == tiers


def test_an_unknown_clearance_has_no_guard() -> None:
    """An unknown clearance is an error without its name, never a guard; with the firewall off it doesn't count."""
    policy = SourcePolicy(clearance="canary")
    with pytest.raises(ValueError, match="not in tuple") as caught:
        access_filter(FirewallSettings(enabled=True), policy, "acme")
    assert "canary" not in str(caught.value)
    assert access_filter(FirewallSettings(), policy, "acme") == AccessFilter("acme")


def test_off_the_namespace_alone_is_guarded() -> None:
    """With the firewall off neither labels nor tiers hide anything, and the namespace does."""
    firewall = FirewallSettings(blocked_labels=["draft"], namespaces={"acme": "restricted"})
    guard = access_filter(firewall, SourcePolicy(required_labels=["legal"]), "acme")
    assert guard == AccessFilter("acme")
    assert guard.permits({"namespace": "acme", "classification": "restricted", "labels": ["draft"]})
    assert not any(guard.permits({"namespace": other}) for other in ("other", "", None, ["acme"], 1))
    assert not guard.permits({})


def test_labels_of_the_source_and_of_everyone_are_united() -> None:
    """A guard blocks what the firewall or the policy blocks and requires what either requires, each label once."""
    firewall = FirewallSettings(enabled=True, blocked_labels=["old", "draft"], required_labels=["legal"])
    policy = SourcePolicy(clearance="internal", blocked_labels=["draft", "a"], required_labels=["checked", "legal"])
    expected = AccessFilter("acme", ("public", "internal"), ("a", "draft", "old"), ("checked", "legal"))
    assert access_filter(firewall, policy, "acme") == expected


@given(
    st.dictionaries(
        st.sampled_from(["namespace", "classification", "labels", "text", "destination"]),
        st.sampled_from(["acme", "public", "draft", "legal", ["legal", "checked"], ["draft"], None, 3]),
    )
)
def test_the_check_reads_what_it_says(payload: dict[str, Any]) -> None:
    """Nothing but the fields in `reads` decides about a record."""
    for guard in (GUARD, AccessFilter("acme")):
        cut = {name: value for name, value in payload.items() if name in guard.reads}
        assert guard.permits(cut) == guard.permits(payload)
    assert GUARD.reads == {"namespace", "classification", "labels"}
    assert AccessFilter("acme").reads == {"namespace"}
