"""The whole configuration, its small sections, and the hash of every value that can change an answer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from schemas.errors import ConfigError
from schemas.fields import Answer, Effect, Newer, Point, by_effect, hash_values, merge_objects, raise_problems
from schemas.recipes import DEFAULT
from schemas.recipes.fusion import Decay
from schemas.settings.backends import ChatSettings, EmbedderSettings, RerankSettings, SparseEncoderSettings
from schemas.settings.delivery import DeliverySettings, DocumentSettings, KafkaSettings, Limits
from schemas.settings.policies import SAY, FirewallSettings, PolicySettings, SourcePolicy
from schemas.settings.qdrant import QdrantSettings
from schemas.settings.ranking import RECIPES, DecaySettings, Experiments, Profiles, Recipes
from schemas.settings.section import DESTINATIONS, Amount, Count, Seconds, Secret, Section, dangling

MIN_SECRET: Final = 16
"""Characters; a shorter secret could be guessed."""


class CacheSettings(Section):
    """The caches of answers, among which a profile's `caches` chooses, and of payloads."""

    ttl: Annotated[float, Field(gt=0, le=86_400)] = 300.0
    """Seconds that an answer is cached. Lower it if other programs change the classification of documents: the firewall
    checks cached answers by cached payloads."""
    exact_mib: Amount = Field(default=64, description="MiB of the exact cache; 0: no cache.")
    semantic_mib: Amount = 64
    """MiB of the semantic cache, its vectors included; 0: no cache."""
    payload_mib: Amount = 64
    """MiB of documents' payloads; 0: no cache."""
    threshold: Answer[Annotated[float, Field(gt=0, le=1)]] = 0.92
    """Minimum cosine of two queries that share an answer in the semantic cache; apart from fillers, words must be the
    same."""
    per_scope: Count = 1000
    """Answers in the semantic cache for queries that differ only in text and vector."""
    clock_bucket: Answer[Seconds] = 60.0
    """Seconds within which answers that depend on the time are shared."""
    watermark_timeout: Annotated[float, Field(gt=0, le=10)] = 0.25
    """Seconds to wait for the namespace's watermark before bypassing the caches."""

    def contradictions(self) -> Iterator[str]:
        if not self.semantic_mib:
            own = ("threshold", "per_scope")
            yield from self.find_unused(own, "without the semantic cache; remove, or raise semantic_mib")
        if not self.semantic_mib and not self.exact_mib:
            own = ("ttl", "clock_bucket")
            yield from self.find_unused(own, "without caches; remove, or raise exact_mib or semantic_mib")


class CursorSettings(Section):
    """The signing of cursors. All replicas need the same secret."""

    signing_secret: Secret = None
    signing_secret_file: Path | None = None
    """File that holds the signing secret; with no secret cursors are only checksummed."""

    def contradictions(self) -> Iterator[str]:
        given = self.signing_secret
        if given is not None and len(given.get_secret_value().strip()) < MIN_SECRET:
            yield f"signing_secret: at least {MIN_SECRET} characters are expected"


class FeedbackSettings(Section):
    """The join of feedback on experiments, by query, in the feedback flow."""

    window: Annotated[float, Field(ge=1, le=86_400)] = 1800.0
    """Seconds after a query in which its feedback counts."""
    most_clicks: Count = 30
    """Maximum clicks on a query's results, counting each document and action once; a query with more is a robot's, and
    no verdict counts it."""
    max_in_flight: Count = 100_000
    """Maximum events of open windows in a partition; further ones are left out, and counted."""


PREFIX: Final = "RANKSTREAM_"
DELIMITER: Final = "__"
"""Of the environment's variables: `RANKSTREAM_KAFKA__CLIENT`."""


class Defaults(Section):
    """Values where neither the event nor its profile has its own."""

    namespace: Point[str] = Field(default="default", min_length=1, description="Namespace of events.")
    destination: Point[Annotated[str, DESTINATIONS]] = Field(default="default", min_length=1)
    """Destination of events."""
    recipe: Answer[Annotated[str, RECIPES]] = DEFAULT
    """Recipe of queries."""
    min_relevance: Answer[Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]] = 0.0
    """Minimum relevance of a result; 0: all are returned."""


class TelemetrySettings(Section):
    """The health port and the logs. OTEL_* variables configure traces and metrics."""

    # Probes come from outside the container.
    host: str = Field(default="0.0.0.0", description="Address that the health port listens on.")  # noqa: S104
    port: Annotated[int, Field(ge=0, le=65_535)] | None = 8080
    """Port of /livez, /readyz and /metrics; null: none. Unset: 8080 (indexing flow: 8081), or the next free one."""
    record_content: bool = Field(default=False, description="Whether spans contain query texts.")
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum level to log."""
    log_format: Literal["json", "console"] | None = None
    """null: plain text in a terminal, JSON elsewhere."""

    def contradictions(self) -> Iterator[str]:
        if self.port is None:
            yield from self.find_unused(["host"], "without a port; remove, or set port")

    @property
    def indexing_port(self) -> int | None:
        """The health port of the indexing flow: `port`, if it is set."""
        return 8081 if self.finds_port else self.port

    @property
    def finds_port(self) -> bool:
        """True if no port is set: any free one will do."""
        return "port" not in self.model_fields_set


class Settings(Section, BaseSettings):
    """Everything that can be configured."""

    # Sections that take any JSON say in their own words that it has no infinite numbers.
    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter=DELIMITER, env_parse_none_str="null", allow_inf_nan=True
    )

    kafka: KafkaSettings = KafkaSettings()
    delivery: DeliverySettings = DeliverySettings()
    qdrant: QdrantSettings
    embedder: EmbedderSettings = EmbedderSettings()
    sparse_encoder: SparseEncoderSettings = SparseEncoderSettings()
    rerank: RerankSettings = RerankSettings()
    chat: ChatSettings = ChatSettings()
    profiles: Answer[Profiles] = {}
    recipes: Answer[Recipes] = {}
    decay: Answer[DecaySettings] = DecaySettings()
    experiments: Answer[Newer[Experiments]] = Field(default={})
    """Name -> another recipe that is tried on some of the queries: in shadow, or mixed with their own."""
    policies: PolicySettings = PolicySettings()
    firewall: Answer[FirewallSettings] = FirewallSettings()
    cache: CacheSettings = CacheSettings()
    cursor: CursorSettings = CursorSettings()
    feedback: FeedbackSettings = FeedbackSettings()
    defaults: Defaults = Defaults()
    documents: Newer[DocumentSettings] = DocumentSettings()
    limits: Limits = Limits()
    telemetry: TelemetrySettings = TelemetrySettings()
    cache_dir: Path = Path("~/.cache/rankstream")
    """Directory for graphs made once: MiniLM's, and quantised cross-encoders (rerank.precision: int8)."""
    threads: Count | None = None
    """Threads of models in this process, tokenizers included; null: all cores. Set it in a container."""

    @property
    def unread_decay(self) -> list[str]:
        """The decay tiers, by their paths, if no profile's recipe reads any."""
        if any(
            isinstance(self.recipes[each.recipe or self.defaults.recipe].fusion, Decay) and each.half_life_days
            for each in self.profiles.values()
        ):
            return []
        of_collections = self.decay.collections.items()
        return [
            *(f"decay.destinations.{name}" for name in self.decay.destinations),
            *(f"decay.collections.{name}.{each}" for name, tiers in of_collections for each in tiers),
            *(f"policies.{path}.decay" for path, policy in self.policies.by_path.items() if policy.decay is not None),
            *(["policies.files"] if self.policies.listed.decays else []),
        ]

    def contradictions(self) -> Iterator[str]:
        yield from dangling(self, self)
        for destination, tiers in self.decay.collections.items():
            if unknown := sorted(tiers.keys() - self.qdrant.collections.get(destination, {}).keys()):
                yield f"decay.collections.{destination}: {', '.join(unknown)}: not in qdrant.collections"
        if not self.chat.served:
            if asking := [name for name, recipe in self.recipes.items() if recipe.asks_chat]:
                yield f"recipes: {', '.join(asking)} ask a chat model, and chat.kind is none"
            if self.rerank.kind == "chat":
                yield "rerank.kind: chat asks a chat model, and chat.kind is none"
        if self.experiments and self.kafka.topics.experiments is None:
            yield "experiments: there is no topic for what they find; set kafka.topics.experiments"
        for name, each in self.experiments.items():
            recipe = self.recipes.get(each.recipe)
            if recipe is not None and (recipe.asks_chat or recipe.picking is not None):
                which = f"experiments.{name}.recipe: {each.recipe}"
                yield f"{which} asks a chat model, which no experiment does; name another"
        learned, encoder = self.qdrant.vectors.learned, self.sparse_encoder
        if encoder.served and learned is None:
            yield f"sparse_encoder.kind: {encoder.kind} needs a vector, and qdrant.vectors.learned is null"
        if learned is not None and not encoder.served:
            yield f"qdrant.vectors.learned: {learned} needs an encoder, and sparse_encoder.kind is none"
        if self.rerank.kind == "late_interaction" and self.embedder.served:
            yield (
                f"rerank.kind: late_interaction reads token vectors, and embedder.kind {self.embedder.kind} gives none;"
                " name another reranker, or none"
            )
        yield from self._find_without_effect()

    def _find_without_effect(self) -> Iterator[str]:
        """Problems of settings that another section has no use for."""
        if self.delivery.mode == "at_least_once" and self.kafka.find_changed(["transaction_timeout"]):
            yield "kafka.transaction_timeout: no effect with delivery.mode at_least_once; remove"
        if self.rerank.kind == "late_interaction" and not self.chat.served and self.rerank.find_changed(["cache"]):
            yield "rerank.cache: no effect: late_interaction has no scores to cache, and there is no chat model; remove"
        if self.qdrant.of_another_tool and (given := self.documents.find_changed(DocumentSettings.model_fields)):
            yield f"documents: {', '.join(given)}: no effect on collections that are only read; remove"
        if self.firewall.unsaid:
            hiding = (path for path, policy in self.policies.by_path.items() if policy.hides)
            yield from (f"policies.{path}: its clearance and labels hide nothing; {SAY}" for path in hiding)

    @model_validator(mode="after")
    def _read_policies(self) -> Self:
        try:
            self.policies.read_files(self.check_policy)
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return self

    def check_policy(self, path: str, policy: SourcePolicy) -> None:
        """Refuse a policy with an unknown name: it would protect something else than its author meant."""
        raise_problems(dangling(policy, self, f"{path}."))

    @classmethod
    def settings_customise_sources(cls, *_: Any, **sources: Any) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment is read with the file."""
        return (sources["init_settings"],)

    def index_hash(self) -> str:
        """SHA-256 of every value that can change what the index stores of a document."""
        return hash_values(self._index_content())

    def making_hash(self, collection: str) -> str:
        """SHA-256 of the settings by which documents are read, embedded and analysed for a Qdrant collection.

        Names of collections do not count, nor what may be changed for the documents to come.
        """
        analyser = by_effect(self.qdrant.bm25_settings(collection), Effect.POINT, Effect.POINT)
        return hash_values({**self._points(), "bm25": analyser, "documents": by_effect(self.documents, Effect.POINT)})

    def config_hash(self) -> str:
        """SHA-256 of every value that can change an answer: not of addresses, secrets and sizes of queues."""
        rest = by_effect(self, Effect.ANSWER)
        # As earlier releases wrote it, so that the digest is theirs.
        defaults = rest.pop("defaults")
        flat = {**rest.pop("qdrant"), **rest.pop("embedder", {}), "min_relevance": defaults.pop("min_relevance")}
        return hash_values({**self._index_content(), **rest, **flat, "group": defaults})

    def _index_content(self) -> dict[str, Any]:
        return merge_objects({"format": _FORMAT, **self._points()}, by_effect(self, Effect.INDEX))

    def _points(self) -> dict[str, Any]:
        points = by_effect(self, Effect.POINT)
        if self.embedder.purposes:
            points["embedder"]["purposes"] = self.embedder.purposes
        return points


_FORMAT: Final = 6
"""Version of what the indexing flow writes; raise it with every change of that.

2: the vocabulary ids of a text's tokens. 3: the words of each column, and the indexes of the keyword syntax.
4: texts and titles in NFC. 5: the title as one value; indexes of id and times; the ids of terms where a collection
has several shards. 6: identifiers and pairs of characters as terms; searched fields; marks of a document's terms.
"""
