"""Sections `policies` and `firewall`: what a source may ask, how a source is known, and which documents it may see."""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self, get_args

import orjson
from pydantic import Field, model_validator

from schemas.recipes.fusion import DecayTier
from schemas.settings.ranking import Allowed
from schemas.settings.section import Section

Tier = Literal["public", "internal", "confidential", "restricted"]
TIERS: Final[tuple[Tier, ...]] = get_args(Tier)
"""Of documents and clearances, from the lowest on: who may see one may see those before it."""


class Denied(Section):
    """What a source may not ask, whatever it is allowed."""

    destinations: list[str] = Field(default=[])
    collections: list[str] = Field(default=[])
    namespaces: list[str] = Field(default=[])
    operations: list[str] = Field(default=[])
    retrieval_modes: list[str] = Field(default=[])
    profiles: list[str] = Field(default=[])


class SourcePolicy(Section):
    """What one source may ask. An empty list allows all."""

    read: bool = True
    destinations: list[str] = Field(default=[])
    collections: list[str] = Field(default=[], description="With a list, a query must name one of it.")
    namespaces: list[str] = Field(default=[])
    operations: list[str] = Field(default=[], description="There is one so far: read.")
    retrieval_modes: list[str] = Field(default=[], description="Profiles; refused as retrieval_mode_not_allowed.")
    allowed_profiles: list[str] = Field(default=[], description="Profiles; refused as policy_denied.")
    deny: Denied = Denied()
    overrides: Allowed | None = Field(
        default=None, description="Recipe parameters that this source may change; null: as limits.overrides."
    )
    decay: DecayTier | None = Field(default=None, description="The most specific tier; null: none.")
    clearance: str | None = Field(
        default=None, description="The highest tier that it may see; null: public; an unknown one sees nothing."
    )
    blocked_labels: list[str] = Field(default=[], description="Documents with any of these are hidden.")
    required_labels: list[str] = Field(default=[], description="Documents without all of these are hidden.")

    @property
    def hides(self) -> bool:
        """Whether documents are hidden by it, with the firewall on."""
        return self.clearance is not None or bool(self.blocked_labels or self.required_labels)

    @property
    def hash(self) -> str:
        """SHA-256 of everything that the policy says."""
        return hashlib.sha256(orjson.dumps(self.model_dump(mode="json"), option=orjson.OPT_SORT_KEYS)).hexdigest()


class IdentitySettings(Section):
    """Where a query's source is known from: a producer can forge what its event says, not the topic it may write to."""

    by: Literal["event", "header", "topic"] = "event"
    header: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="The Kafka header that names the source, set by a gateway."
    )
    topics: dict[str, str] = Field(default={}, description="Source by topic; a topic that isn't here has none.")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        given = {"header": self.header is not None, "topic": bool(self.topics)}
        settings = {"header": "header", "topic": "topics"}
        problems = [f"by: {by} needs {settings[by]}" for by in given if by == self.by and not given[by]]
        problems += [
            f"{settings[by]} is set, but by: {self.by} doesn't use it" for by in given if by != self.by and given[by]
        ]
        if problems:
            raise ValueError("; ".join(problems))
        return self


class PolicySettings(Section):
    """Who asks, and what they may."""

    identity: IdentitySettings = IdentitySettings()
    default: SourcePolicy = Field(default=SourcePolicy(), description="Of a source that isn't in sources, or unknown.")
    sources: dict[str, SourcePolicy] = Field(default={}, description="By source; nothing is inherited from default.")

    @property
    def by_path(self) -> Mapping[str, SourcePolicy]:
        """Every policy, by where the configuration has it."""
        return {"default": self.default, **{f"sources.{name}": policy for name, policy in self.sources.items()}}

    def of(self, source: str | None) -> SourcePolicy:
        """The policy of this source; of an unknown one the default."""
        return self.default if source is None else self.sources.get(source, self.default)


class FirewallSettings(Section):
    """Which documents may be seen. Off, there is neither a filter nor a check."""

    enabled: bool = False
    blocked_labels: list[str] = Field(default=[], description="For every source, beside its own.")
    required_labels: list[str] = Field(default=[], description="For every source, beside its own.")
    namespaces: dict[str, Tier] = Field(
        default={}, description="A namespace's own tier: a source with less clearance may not ask in it."
    )
