"""The sources of the cascade's tests, and their policies."""

from tests.integration.cascade import Json
from tests.integration.deployment import Headers

IDENTITY = "x-source"
SECRET = "a secret of thirty-two characters"


RULES: dict[str, tuple[str, str, str, str | None]] = {
    "destination_not_allowed": ("destinations", "destinations", "elsewhere", "default"),
    "operation_not_allowed": ("operations", "operations", "read", None),
    "retrieval_mode_not_allowed": ("retrieval_modes", "retrieval_modes", "fast", "balanced"),
    "policy_denied": ("allowed_profiles", "profiles", "fast", "balanced"),
    "retrieval_firewall_denied": ("namespaces", "namespaces", "crew", "kitchen"),
}
"""Code -> the list that allows, the one that denies, what REFUSABLE asks, and what else could be asked, if anything."""

REFUSABLE: Json = {"text": "oven", "destination": "elsewhere", "profile": "fast", "namespace": "crew"}


def _sources() -> dict[str, Json]:
    """For each code: who isn't allowed, is denied, is both allowed and denied, or allowed; `CODE first` is refused for
    that code and for all behind it, `mute` for all six.
    """
    sources: dict[str, Json] = {}
    behind: Json = {}
    for code, (allows, denies, asked, other) in reversed(RULES.items()):
        denied = {"deny": {denies: [asked]}}
        without: Json = denied if other is None else {allows: [other]}
        behind |= without
        sources |= {
            f"{code} without": without,
            f"{code} denied": denied,
            f"{code} both": {allows: [asked, *([] if other is None else [other])], **denied},
            f"{code} allowed": {allows: [asked]},
            f"{code} first": dict(behind),
        }
    return sources | {"mute": {**behind, "read": False}, "read only": {"read": False}}


SOURCES: dict[str, Json] = {
    **_sources(),
    "empty": {allows: [] for allows, *_ in RULES.values()},
    "noted": {"collections": ["notes"]},
    "noteless": {"deny": {"collections": ["notes"]}},
    "tuner": {"overrides": {"score.alpha": {"min": 0.2, "max": 0.8}}},
    "ageing": {"decay": {"enabled": True, "mode": "step", "step_threshold_days": 3, "half_life_days": 3}},
}


SEEING: dict[str, Json] = {
    "restricted": {"clearance": "restricted"},
    "confidential": {"clearance": "confidential"},
    "internal": {"clearance": "internal"},
    "public": {"clearance": "public"},
    "cosmic": {"clearance": "cosmic"},
    "undrafted": {"clearance": "restricted", "blocked_labels": ["draft"]},
    "signing": {"clearance": "restricted", "required_labels": ["reviewed", "signed"]},
    "both": {"blocked_labels": ["draft"], "required_labels": ["reviewed"]},
}


def by(source: str) -> Headers:
    """The header that says who asks."""
    return [(IDENTITY, source.encode())]
