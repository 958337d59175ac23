"""Sections `policies` and `firewall`: how a source is known, what it may ask, and which documents it may see."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

import orjson
from pydantic import AfterValidator, Field, PrivateAttr, ValidationError

from schemas.errors import MAX_WORDED, ConfigError, explain_problem
from schemas.fields import Answer, Effect, Newer, NoEffect, by_effect, hash_values
from schemas.filters import FieldName, Filters
from schemas.query import Returned
from schemas.recipes.fusion import DecayTier
from schemas.settings.document import read
from schemas.settings.ranking import Allowed
from schemas.settings.section import DESTINATIONS, Reference, Section, matches
from schemas.settings.topics import TopicPattern

Tier = Literal["public", "internal", "confidential", "restricted"]
TIERS: Final[tuple[Tier, ...]] = get_args(Tier)
"""Tiers of documents and clearances, lowest first: a clearance covers its own tier and all tiers before it."""


OPERATION: Final = "read"
"""The operation of every query; there is no other."""

_Profiles = Annotated[list[str], Reference("not in profiles", lambda root, name: name in root.profiles)]
_Parts = Annotated[
    list[str],
    Reference(
        "not in qdrant.collections", lambda root, name: any(name in each for each in root.qdrant.collections.values())
    ),
]
_Operations = Annotated[list[str], Reference(f"no operation; there is {OPERATION}", lambda _, name: name == OPERATION)]
_QUERIES: Final = Reference("not kafka.topics.queries", lambda root, name: name == root.kafka.topics.queries)
_REPLIES: Final = Reference(
    "neither kafka.topics.results nor one of kafka.topics.reply_to",
    lambda root, name: matches(name, (root.kafka.topics.results, *root.kafka.topics.reply_to)),
)

MAX_BYTES: Final = 16 * 1024 * 1024
"""Bytes of all files of policies."""

_SUFFIXES: Final = {".json", ".yaml", ".yml"}


class Deny(Section):
    """Requests that a source may not make. This list overrides the lists that allow."""

    destinations: Annotated[list[str], DESTINATIONS] = Field(default=[], description="Denied destinations.")
    collections: _Parts = Field(default=[], description="Denied collections.")
    namespaces: list[str] = Field(default=[], description="Denied namespaces.")
    operations: _Operations = Field(default=[], description="Denied operations.")
    retrieval_modes: _Profiles = Field(default=[], description="Denied profiles: retrieval_mode_not_allowed.")
    profiles: _Profiles = Field(default=[], description="Denied profiles: policy_denied.")


def _not_the_id(name: str) -> str:
    if name == "id":
        raise ValueError("a result always has its id")
    return name


class SourcePolicy(Section):
    """Requests that one source may make. An empty list allows all."""

    read: bool = Field(default=True, description="Whether the source may query.")
    destinations: Annotated[list[str], DESTINATIONS] = Field(default=[], description="Allowed destinations.")
    collections: _Parts = Field(default=[])
    """Allowed collections; if any is listed, a query must name one of them."""
    namespaces: list[str] = Field(default=[], description="Allowed namespaces.")
    operations: _Operations = Field(default=[], description="Allowed operations; `read` is the only one.")
    retrieval_modes: _Profiles = Field(default=[])
    """Allowed profiles; others are denied as retrieval_mode_not_allowed."""
    allowed_profiles: _Profiles = Field(default=[])
    """Allowed profiles; others are denied as policy_denied."""
    reply_to: NoEffect[Annotated[list[TopicPattern], _REPLIES]] = Field(default=[])
    """Results topics, or patterns with `*` and `?`, that a query may choose; kafka.topics.results for one that chooses
    none."""
    deny: Deny = Deny()
    overrides: Allowed | None = None
    """Recipe parameter -> bounds of overrides; null: limits.overrides."""
    decay: DecayTier | None = Field(default=None, description="The most specific decay tier; null: none.")
    clearance: str | None = None
    """Highest tier to see; null: public; an unknown name denies every query."""
    blocked_labels: list[str] = Field(default=[], description="The firewall hides documents with any of these labels.")
    required_labels: list[str] = Field(default=[])
    """The firewall hides documents that lack one of these labels."""
    filters: Newer[Filters] = Field(default=[])
    """Filters, as in a query, that a document must pass to be seen, also without the firewall."""
    hidden_fields: Newer[list[Annotated[FieldName, AfterValidator(_not_the_id)]]] = Field(default=[])
    """Payload fields, with all inside them, that are in no result, explanation or pool, and that the source may not
    filter, order or group by."""
    returned: Newer[Returned | None] = Field(default=None, alias="return")
    """Parts of documents in results, where a query's `return` does not say; null: the profile's."""

    @property
    def hides(self) -> bool:
        """True if the policy hides documents when the firewall is on."""
        return self.clearance is not None or bool(self.blocked_labels or self.required_labels)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of all that can change an answer."""
        return hash_values(by_effect(self, Effect.ANSWER, Effect.ANSWER))


class IdentitySettings(Section):
    """The identification of a query's source. A producer can forge a field of its event, but not the topic."""

    by: Literal["event", "header", "topic"] = "event"
    """event: its field `source`; header: a Kafka header; topic: the queries topic."""
    header: Annotated[str, Field(min_length=1)] | None = None
    """For header: name of the Kafka header that a trusted gateway sets."""
    topics: Annotated[dict[str, str], _QUERIES] = Field(default={})
    """For topic: topic -> source; queries of other topics have no source."""

    def contradictions(self) -> Iterator[str]:
        given = {"header": self.header, "topic": self.topics}
        settings = {"header": "header", "topic": "topics"}
        if self.by in given and not given[self.by]:
            yield f"by: {self.by} needs {settings[self.by]}"
        for by, setting in settings.items():
            if by != self.by and given[by]:
                yield f"{setting}: no effect with by: {self.by}; remove, or set by to {by}"


SAY: Final = "set firewall.enabled to true, or to false to have it off for now"

PolicyCheck = Callable[[str, SourcePolicy], None]
"""Raises ValueError for a policy, found at this path, that cannot be used."""

_LISTS: Final[Mapping[str, Any]] = {name: [] for name in Deny.model_fields}
_DEFAULTS: Final[Mapping[str, Any]] = {
    "deny": Deny(),
    **{name: [] for name, each in SourcePolicy.model_fields.items() if each.default == []},
}
"""The defaults of a policy that are copied deeply where it lacks them, which takes longer than all the rest."""


@lru_cache(1024)
def _of_json(policy: bytes) -> SourcePolicy:
    return _policy(orjson.loads(policy))


def _policy(given: Any) -> SourcePolicy:
    if isinstance(given, dict):
        given = {**_DEFAULTS, **given}
        if isinstance(given["deny"], dict):
            given["deny"] = {**_LISTS, **given["deny"]}
    return SourcePolicy.model_validate(given)


_Marks = tuple[tuple[str, int, int, int], ...]
"""Names, sizes, times and places of files: what tells them from others."""


@dataclass(frozen=True, slots=True)
class Listed:
    """The policies of the files, by source, each as JSON: as objects they take ten times the memory.

    `hides` and `decays`: one of them hides documents if the firewall is on, or has a tier of decay.
    """

    policies: Mapping[str, bytes] = field(default_factory=dict)
    hides: bool = False
    decays: bool = False
    marks: _Marks = ()


class PolicySettings(Section):
    """The identification of sources, and the requests that each may make.

    The policies of the `files` are the one part of the settings that changes while a process runs: all at once.
    """

    identity: Answer[IdentitySettings] = IdentitySettings()
    default: Answer[SourcePolicy] = SourcePolicy()
    """Policy of every source that `sources` does not list."""
    sources: Answer[dict[str, SourcePolicy]] = Field(default={})
    """Source -> its policy, which inherits nothing from `default`."""
    files: list[Path] = Field(default=[])
    """Files of further sources (JSON or YAML mappings as `sources`), or directories of them; read again when they
    change."""

    _listed: Listed = PrivateAttr(default=Listed())
    _refused: tuple[_Marks, str] = PrivateAttr(default=((), ""))

    @property
    def listed(self) -> Listed:
        return self._listed

    @property
    def by_path(self) -> Mapping[str, SourcePolicy]:
        """Every policy of the configuration itself, by its path."""
        return {"default": self.default, **{f"sources.{name}": policy for name, policy in self.sources.items()}}

    def policy_for(self, source: str | None) -> SourcePolicy:
        """The policy of this source, or the default policy if neither `sources` nor a file lists it."""
        if source is None:
            return self.default
        listed = self._listed.policies.get(source)
        return self.sources.get(source, self.default) if listed is None else _of_json(listed)

    def read_files(self, check: PolicyCheck) -> bool:
        """Read the files, if they are not those read before; true if so.

        Raises ConfigError with the first problems; the policies are then what they were.
        """
        try:
            files = list(self._find_files())
            marks = _marks(files)
            if marks == self._listed.marks:
                return False
            if marks == self._refused[0]:
                raise ConfigError(self._refused[1])
            try:
                listed = self._read(files, check, marks)
            except ConfigError as error:
                self._refused = marks, str(error)
                raise
            if marks != _marks(files):
                raise ConfigError("policies.files: they changed while they were read")
        except OSError as error:
            raise ConfigError(f"policies.files: {error.filename}: {error.strerror}") from error
        self._listed = listed
        return True

    def _find_files(self) -> Iterator[Path]:
        for path in (each.expanduser() for each in self.files):
            if not path.is_dir():
                yield path
                continue
            # Kubernetes keeps what it mounts in directories whose names begin with a dot.
            inside = [each for each in sorted(path.iterdir()) if each.suffix in _SUFFIXES and each.name[0] != "."]
            if not inside:
                raise ConfigError(f"policies.files: {path}: no file of .json, .yaml or .yml is in it")
            yield from inside

    def _read(self, files: list[Path], check: PolicyCheck, marks: _Marks) -> Listed:
        if sum(size for _, size, *_ in marks) > MAX_BYTES:
            raise ConfigError(f"policies.files: larger than {MAX_BYTES} bytes in all")
        policies: dict[str, bytes] = {}
        wrong: list[str] = []
        hides = decays = False
        for file in files:
            document = read(file, MAX_BYTES)
            if not document:
                # As while a file is written anew.
                raise ConfigError(f"{file}: no source is in it")
            for source in list(document):
                given = document.pop(source)
                path = f"{file}: {source}"
                try:
                    if source in policies or source in self.sources:
                        raise ValueError(f"{path}: another policy has this source")
                    policy = _policy(given)
                    check(path, policy)
                    # A copy: what orjson makes keeps kilobytes of room.
                    policies[source] = bytes(memoryview(orjson.dumps(given)))
                except ValidationError as error:
                    wrong += _problems(path, error)
                except ValueError as error:
                    wrong.append(str(error))
                except TypeError as error:
                    # Half of a character, or an integer of more than 64 bits.
                    wrong.append(f"{path}: {error}")
                else:
                    hides, decays = hides or policy.hides, decays or policy.decay is not None
                if len(wrong) >= MAX_WORDED:
                    break
        if wrong:
            raise ConfigError("\n".join(wrong[:MAX_WORDED]))
        return Listed(policies, hides, decays, marks)


def _marks(files: list[Path]) -> _Marks:
    states = [(str(file), file.stat()) for file in files]
    return tuple((name, state.st_size, state.st_mtime_ns, state.st_ino) for name, state in states)


def _problems(path: str, error: ValidationError) -> Iterator[str]:
    for item in error.errors(include_url=False, include_input=False):
        yield f"{'.'.join(map(str, (path, *item['loc'])))}: {explain_problem(item, SourcePolicy)}"


class FirewallSettings(Section):
    """The retrieval firewall: it hides documents by namespace, tier and labels."""

    enabled: bool = False
    """false: tier and labels hide nothing; namespaces and filters of policies still do."""
    blocked_labels: list[str] = Field(default=[], description="Blocked labels of every source, added to its own.")
    required_labels: list[str] = Field(default=[], description="Required labels of every source, added to its own.")
    namespaces: dict[str, Tier] = Field(default={})
    """Namespace -> its tier; sources with a lower clearance may not query it."""

    @property
    def unsaid(self) -> bool:
        """True if it is off, and nobody said so: what it is to hide is then a mistake."""
        return not self.enabled and "enabled" not in self.model_fields_set

    def contradictions(self) -> Iterator[str]:
        if self.unsaid:
            yield from self.find_unused(type(self).model_fields, f"without the firewall; {SAY}")
