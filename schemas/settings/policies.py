"""Sections `policies` and `firewall`: how a source is known, what it may ask, and which documents it may see."""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self, get_args

import orjson
from pydantic import AfterValidator, Field, model_validator

from schemas.filters import FieldName, Filters
from schemas.query import Returned
from schemas.recipes.fusion import DecayTier
from schemas.settings.ranking import Allowed
from schemas.settings.section import Section, TopicPattern

Tier = Literal["public", "internal", "confidential", "restricted"]
TIERS: Final[tuple[Tier, ...]] = get_args(Tier)
"""Tiers of documents and clearances, lowest first: a clearance covers its own tier and all tiers before it."""


OPERATION: Final = "read"
"""The operation of every query; there is no other."""


class Deny(Section):
    """Requests that a source may not make. This list overrides the lists that allow."""

    destinations: list[str] = Field(default=[], description="Denied destinations.")
    collections: list[str] = Field(default=[], description="Denied collections.")
    namespaces: list[str] = Field(default=[], description="Denied namespaces.")
    operations: list[str] = Field(default=[], description="Denied operations.")
    retrieval_modes: list[str] = Field(default=[], description="Denied profiles: retrieval_mode_not_allowed.")
    profiles: list[str] = Field(default=[], description="Denied profiles: policy_denied.")


def _not_the_id(name: str) -> str:
    if name == "id":
        raise ValueError("a result always has its id")
    return name


class SourcePolicy(Section):
    """Requests that one source may make. An empty list allows all."""

    read: bool = Field(default=True, description="Whether the source may query at all.")
    destinations: list[str] = Field(default=[], description="Allowed destinations.")
    collections: list[str] = Field(
        default=[], description="Allowed collections; if the list is not empty, a query must name one of them."
    )
    namespaces: list[str] = Field(default=[], description="Allowed namespaces.")
    operations: list[str] = Field(default=[], description="Allowed operations; `read` is the only one.")
    retrieval_modes: list[str] = Field(
        default=[], description="Allowed profiles; others are denied with the code retrieval_mode_not_allowed."
    )
    allowed_profiles: list[str] = Field(
        default=[], description="Allowed profiles; others are denied with the code policy_denied."
    )
    reply_to: list[TopicPattern] = Field(
        default=[],
        description="Results topics that a query may choose, by name or by a pattern with `*` and `?`; one that chooses"
        " none is answered on kafka.topics.results in any case.",
    )
    deny: Deny = Deny()
    overrides: Allowed | None = Field(
        default=None,
        description="Recipe parameter -> bounds for overrides of this source; null: limits.overrides applies.",
    )
    decay: DecayTier | None = Field(default=None, description="The most specific decay tier; null: none.")
    clearance: str | None = Field(
        default=None,
        description="Highest tier that the source may see; null: public; an unknown name denies every query.",
    )
    blocked_labels: list[str] = Field(default=[], description="The firewall hides documents with any of these labels.")
    required_labels: list[str] = Field(
        default=[], description="The firewall hides documents that lack one of these labels."
    )
    filters: Filters = Field(
        default=[],
        description="Filters that a document must pass for the source to see it, as a query has them; they hold without"
        " the firewall, too.",
    )
    hidden_fields: list[Annotated[FieldName, AfterValidator(_not_the_id)]] = Field(
        default=[],
        description="Payload fields, with all that is inside them, that the source does not see: they are in no result,"
        " explanation or pool, and it may not filter, order or group by them.",
    )
    returned: Returned | None = Field(
        default=None,
        description="Parts of documents that results have where a query's `return` does not say; null: the profile's.",
    )

    @property
    def hides(self) -> bool:
        """True if the policy hides documents when the firewall is on."""
        return self.clearance is not None or bool(self.blocked_labels or self.required_labels)

    @property
    def content(self) -> dict[str, Any]:
        """All that can change an answer; what earlier versions do not know only where it is set."""
        newer = {name for name in ("filters", "hidden_fields", "returned") if not getattr(self, name)}
        return self.model_dump(mode="json", exclude={"reply_to", *newer})

    @property
    def hash(self) -> str:
        """SHA-256 of all that can change an answer."""
        return hashlib.sha256(orjson.dumps(self.content, option=orjson.OPT_SORT_KEYS)).hexdigest()


class IdentitySettings(Section):
    """The identification of a query's source. A producer can forge a field of its event, but not the topic."""

    by: Literal["event", "header", "topic"] = Field(
        default="event", description="event: its field `source`; header: a Kafka header; topic: the queries topic."
    )
    header: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="For header: name of the Kafka header that a trusted gateway sets."
    )
    topics: dict[str, str] = Field(
        default={}, description="For topic: topic -> source; queries of other topics have no source."
    )

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
    """The identification of sources, and the requests that each may make."""

    identity: IdentitySettings = IdentitySettings()
    default: SourcePolicy = Field(
        default=SourcePolicy(), description="Policy of every source that `sources` does not list."
    )
    sources: dict[str, SourcePolicy] = Field(
        default={}, description="Source -> its policy, which inherits nothing from `default`."
    )

    @property
    def by_path(self) -> Mapping[str, SourcePolicy]:
        """Every policy, by its path in the configuration."""
        return {"default": self.default, **{f"sources.{name}": policy for name, policy in self.sources.items()}}

    def of(self, source: str | None) -> SourcePolicy:
        """The policy of this source, or the default policy if `sources` does not list it."""
        return self.default if source is None else self.sources.get(source, self.default)


class FirewallSettings(Section):
    """The retrieval firewall: it hides documents by namespace, tier and labels."""

    enabled: bool = Field(
        default=False, description="false: tier and labels hide nothing; namespaces and filters of policies still do."
    )
    blocked_labels: list[str] = Field(default=[], description="Blocked labels of every source, added to its own.")
    required_labels: list[str] = Field(default=[], description="Required labels of every source, added to its own.")
    namespaces: dict[str, Tier] = Field(
        default={}, description="Namespace -> its tier; sources with a lower clearance may not query it."
    )
