"""The firewall's check of one record, and whose guard a query gets."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from operators.access.filters import condition
from operators.access.firewall import AccessFilter, access_filter, find_forbidden, visible
from schemas.filters import AnyFilter, Filters
from schemas.settings.policies import TIERS, FirewallSettings, SourcePolicy

FLAT = {"field": "flat", "op": "eq", "value": True}
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
    firewall = FirewallSettings(enabled=False, blocked_labels=["draft"], namespaces={"acme": "restricted"})
    guard = access_filter(firewall, SourcePolicy(required_labels=["legal"]), "acme")
    assert guard == AccessFilter("acme")
    assert guard.permits({"namespace": "acme", "classification": "restricted", "labels": ["draft"]})
    assert not any(guard.permits({"namespace": other}) for other in ("other", "", None, ["acme"], 1))
    assert not guard.permits({})


FILTERS: TypeAdapter[list[AnyFilter]] = TypeAdapter(Filters)
RED: list[AnyFilter] = FILTERS.validate_python(
    [
        {"field": "meta.colour", "op": "eq", "value": "red"},
        {"any_of": [{"field": "size", "op": "range", "value": {"lt": 5}}, {"none_of": [FLAT]}]},
    ]
)


@pytest.mark.parametrize("enabled", [True, False])
def test_filters_of_the_policy_hide_with_the_firewall_and_without(enabled: bool) -> None:
    """A record must pass all of them; the check reads their fields, and the conditions are the filters' own."""
    guard = access_filter(FirewallSettings(enabled=enabled), SourcePolicy(filters=RED), "acme")
    seen = {"namespace": "acme", "meta": {"colour": "red"}, "size": 4, "flat": True}
    assert guard.permits(seen)
    assert guard.permits({**seen, "size": 9, "flat": False})
    assert not guard.permits({**seen, "size": 9})
    assert not guard.permits({**seen, "meta": {"colour": "blue"}})
    assert not guard.permits({**seen, "namespace": "other"})
    assert not guard.permits({"namespace": "acme"})
    assert guard.reads >= {"namespace", "meta.colour", "size", "flat"}
    assert guard.hides
    assert guard.visible()[: len(RED)] == [condition(each) for each in RED]
    assert find_forbidden(guard, "ab", [seen, {**seen, "meta": {}}]) == {"b"}


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
