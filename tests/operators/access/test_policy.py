"""Stage 0: who asks, and what is refused, in which order and in which words."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.access.policy import identify, judge
from schemas.errors import DeadLetterClass, InputError
from schemas.result import Denial, DenialCode
from schemas.settings.policies import TIERS, Deny, FirewallSettings, IdentitySettings, SourcePolicy

Asked = tuple[str, str | None, str, str, str]

ASKED: Asked = ("docs", "notes", "acme", "read", "deep")
OFF = FirewallSettings()
ON = FirewallSettings(enabled=True)

HEADER = IdentitySettings(by="header", header="X-Source")
TOPIC = IdentitySettings(by="topic", topics={"queries.web": "web"})


def code(policy: SourcePolicy, firewall: FirewallSettings = OFF, asked: Asked = ASKED) -> str | None:
    """The code of the denial, if there is one."""
    denial = judge(policy, firewall, *asked)
    return denial and denial.code


# Who asks


def test_the_event_says_who_asks_unless_told_otherwise() -> None:
    """By default the source is the event's; headers and topics don't count."""
    headers = [("X-Source", b"gateway")]
    assert identify(IdentitySettings(), "web", headers, "queries.web") == "web"
    assert identify(IdentitySettings(), None, headers, "queries.web") is None


@pytest.mark.parametrize("name", ["X-Source", "x-source", "X-SOURCE"])
def test_a_header_says_who_asks(name: str) -> None:
    """The configured header names the source, whatever its case, and the event's word doesn't count."""
    assert identify(HEADER, "forged", [("other", b"x"), (name, "grün".encode())], "queries") == "grün"


@pytest.mark.parametrize("name", ["x-\u212aey", "X-\u212aEY", "x-\uff4bey", "x-key\u200b", "\u00d7-key"])
def test_a_header_that_looks_like_the_configured_one_is_another(name: str) -> None:
    """The Kelvin sign is no k, whatever its lower case is; nor is anything else that isn't ASCII's."""
    identity = IdentitySettings(by="header", header="X-Key")
    assert identify(identity, None, [(name, b"forged")], "queries") is None
    assert identify(identity, None, [(name, b"forged"), ("x-KEY", b"web")], "queries") == "web"


@pytest.mark.parametrize("headers", [[], [("x-sources", b"web")], [("x-source", b"")]])
def test_without_the_header_the_source_is_unknown(headers: list[tuple[str, bytes]]) -> None:
    """A query without the header, or with an empty one, has no source, whatever its event says."""
    assert identify(HEADER, "forged", headers, "queries") is None


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ([("x-source", b"canary"), ("X-Source", b"canary")], "header X-Source: expected once, found 2 times"),
        ([("x-source", b"canary\xff")], "header X-Source: expected UTF-8, found other bytes"),
    ],
)
def test_a_header_that_cant_be_trusted_is_an_error(headers: list[tuple[str, bytes]], said: str) -> None:
    """A repeated header, even with one value, and one that isn't UTF-8 are invalid; the value isn't repeated."""
    with pytest.raises(InputError) as caught:
        identify(HEADER, "web", headers, "queries")
    assert caught.value.kind is DeadLetterClass.INVALID
    assert str(caught.value) == said
    assert caught.value.__cause__ is None


def test_a_topic_says_who_asks() -> None:
    """The topic that the query came from maps to its source; one that isn't mapped has none."""
    assert identify(TOPIC, "forged", [("x-source", b"forged")], "queries.web") == "web"
    assert identify(TOPIC, "forged", [], "queries") is None


# What is refused

REFUSALS: list[tuple[dict[str, Any], Denial]] = [
    ({"read": False}, Denial(DenialCode.SOURCE_NOT_PERMITTED_TO_READ, "this source may not read")),
    (
        {"destinations": ["secret"]},
        Denial(DenialCode.DESTINATION_NOT_ALLOWED, "destination 'docs' is not allowed for this source"),
    ),
    (
        {"collections": ["secret"]},
        Denial(DenialCode.DESTINATION_NOT_ALLOWED, "collection 'notes' is not allowed for this source"),
    ),
    (
        {"operations": ["secret"]},
        Denial(DenialCode.OPERATION_NOT_ALLOWED, "operation 'read' is not allowed for this source"),
    ),
    (
        {"retrieval_modes": ["secret"]},
        Denial(DenialCode.RETRIEVAL_MODE_NOT_ALLOWED, "retrieval mode 'deep' is not allowed for this source"),
    ),
    (
        {"allowed_profiles": ["secret"]},
        Denial(DenialCode.POLICY_DENIED, "profile 'deep' is not allowed for this source"),
    ),
    (
        {"namespaces": ["secret"]},
        Denial(DenialCode.RETRIEVAL_FIREWALL_DENIED, "namespace 'acme' is not allowed for this source"),
    ),
]


@pytest.mark.parametrize(("values", "denial"), REFUSALS)
def test_what_isnt_in_a_list_is_refused(values: dict[str, Any], denial: Denial) -> None:
    """Each list refuses what it doesn't name, by its code, in a sentence that names what was asked and no more."""
    assert judge(SourcePolicy.model_validate(values), OFF, *ASKED) == denial


@pytest.mark.parametrize(
    ("field", "name", "allow"),
    [
        ("destinations", "docs", "destinations"),
        ("collections", "notes", "collections"),
        ("operations", "read", "operations"),
        ("retrieval_modes", "deep", "retrieval_modes"),
        ("profiles", "deep", "allowed_profiles"),
        ("namespaces", "acme", "namespaces"),
    ],
)
def test_deny_wins_over_allow(field: str, name: str, allow: str) -> None:
    """A name on both lists is refused as if only the list of denials had it; a name that neither refuses is allowed."""
    both = SourcePolicy.model_validate({allow: [name], "deny": {field: ["other", name]}})
    alone = SourcePolicy.model_validate({"deny": {field: [name]}})
    denial = judge(both, OFF, *ASKED)
    assert denial is not None
    assert denial == judge(alone, OFF, *ASKED)
    assert judge(SourcePolicy.model_validate({allow: ["x", name], "deny": {field: ["other"]}}), OFF, *ASKED) is None


def test_codes_come_in_their_order() -> None:
    """Of several refusals the first in the closed list is given; with each one lifted the next one comes."""
    everything: dict[str, Any] = {}
    for values, _ in REFUSALS:
        everything |= values
    seen = []
    for values, denial in REFUSALS:
        seen.append(judge(SourcePolicy.model_validate(everything), ON, *ASKED))
        assert seen[-1] == denial
        everything = {name: value for name, value in everything.items() if name not in values}
    assert judge(SourcePolicy.model_validate(everything), ON, *ASKED) is None
    codes = [
        "source_not_permitted_to_read",
        "destination_not_allowed",
        "operation_not_allowed",
        "retrieval_mode_not_allowed",
        "policy_denied",
        "retrieval_firewall_denied",
    ]
    assert list(dict.fromkeys(denial.code for denial in seen if denial)) == list(DenialCode) == codes


def test_a_collection_must_be_named_where_there_is_a_list() -> None:
    """A source that may see some collections only can't ask without naming one; a list of denials asks for no name."""
    unnamed: Asked = ("docs", None, "acme", "read", "deep")
    denial = judge(SourcePolicy(collections=["notes"]), OFF, *unnamed)
    assert denial == (
        DenialCode.DESTINATION_NOT_ALLOWED,
        "no collection is named, and this source must name one",
    )
    assert judge(SourcePolicy(deny=Deny(collections=["notes"])), OFF, *unnamed) is None


# Clearance


@pytest.mark.parametrize("clearance", [None, *TIERS])
@pytest.mark.parametrize("tier", TIERS)
def test_a_namespaces_tier_needs_clearance(clearance: str | None, tier: Any) -> None:
    """With the firewall on, a namespace above the clearance is refused, no clearance being public; off, it isn't."""
    policy = SourcePolicy(clearance=clearance)
    firewall = FirewallSettings(enabled=True, namespaces={"acme": tier, "other": "restricted"})
    enough = TIERS.index(tier) <= (0 if clearance is None else TIERS.index(clearance))
    denial = judge(policy, firewall, *ASKED)
    assert (denial is None) == enough
    if denial is not None:
        assert denial.code is DenialCode.RETRIEVAL_FIREWALL_DENIED
        assert denial.reason == "namespace 'acme' is above the clearance of this source"
    assert judge(policy, firewall.model_copy(update={"enabled": False}), *ASKED) is None


@pytest.mark.parametrize("clearance", ["secret", "", "Public"])
def test_an_unknown_clearance_sees_nothing(clearance: str) -> None:
    """With the firewall on, a clearance that is no tier is refused in words without it; off, it doesn't count."""
    denial = judge(SourcePolicy(clearance=clearance), ON, *ASKED)
    assert denial == (
        DenialCode.RETRIEVAL_FIREWALL_DENIED,
        "the clearance of this source is not a known tier",
    )
    assert judge(SourcePolicy(clearance=clearance), OFF, *ASKED) is None


NAMES = st.sampled_from(["docs", "notes", "acme", "read", "deep", "x"])
LISTS = st.lists(NAMES, max_size=3)
LISTED = ("destinations", "collections", "namespaces", "operations", "retrieval_modes")


@given(
    st.fixed_dictionaries(dict.fromkeys((*LISTED, "allowed_profiles"), LISTS)),
    st.fixed_dictionaries(dict.fromkeys((*LISTED, "profiles"), LISTS)),
    st.tuples(NAMES, NAMES, NAMES, NAMES, NAMES),
)
def test_a_query_goes_on_if_no_list_refuses_it(
    allow: dict[str, list[str]], deny: dict[str, list[str]], names: tuple[str, str, str, str, str]
) -> None:
    """A query is denied exactly if a list of denials names something of it, or a written list doesn't."""
    profile = names[-1]
    wanted = dict(zip(LISTED, names, strict=True))
    refused = any(name in deny[field] or (allow[field] and name not in allow[field]) for field, name in wanted.items())
    profiles = allow["allowed_profiles"]
    refused = refused or profile in deny["profiles"] or bool(profiles and profile not in profiles)
    policy = SourcePolicy.model_validate({**allow, "deny": deny})
    assert (code(policy, OFF, names) is not None) == refused
    assert code(policy, ON, names) == code(policy, OFF, names)
    assert code(policy.model_copy(update={"read": False}), OFF, names) == "source_not_permitted_to_read"
