"""Sections `kafka`, `delivery` and `limits`: the broker, the promise and its bounds."""

import socket
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from schemas.settings.ranking import Allowed
from schemas.settings.section import Count, Seconds, Section
from schemas.settings.security import Protocol, SaslSettings, TlsSettings, contradictions

TopicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]


class Topics(Section):
    """The topics, by their role."""

    queries: TopicName = "queries"
    results: TopicName = "results"
    dead_letters: TopicName = "dead-letters"
    documents: TopicName = "documents"
    watermarks: TopicName = "watermarks"
    reply_to: list[TopicName] = Field(default=[], description="Topics that a query may choose for its result.")

    @field_validator("reply_to")
    @classmethod
    def _for_results_only(cls, topics: list[str], info: ValidationInfo) -> list[str]:
        if len(set(topics)) < len(topics):
            raise ValueError("a topic is listed twice")
        others = ("queries", "documents", "dead_letters", "watermarks")
        if taken := [role for role in others if info.data.get(role) in topics]:
            raise ValueError(f"lists the topic of {', '.join(taken)}")
        return topics


class KafkaSettings(Section):
    """Where the broker is and how membership in the group behaves."""

    client: Literal["librdkafka", "kafka-python"] = "librdkafka"
    bootstrap_servers: str = "localhost:9092"
    group_id: str = "rankstream"
    security_protocol: Protocol = "PLAINTEXT"
    tls: TlsSettings = TlsSettings()
    sasl: SaslSettings = SaslSettings()
    topics: Topics = Topics()
    session_timeout: Annotated[float, Field(ge=6, le=10)] = 6.0
    heartbeat_interval: Seconds = 2.0
    max_poll_interval: Seconds = 30.0
    transaction_timeout: Seconds = 10.0
    request_timeout: Seconds = 30.0
    compression: Literal["lz4", "zstd", "gzip"] | None = "lz4"
    partitions: Count = Field(default=8, description="Partitions of the topics that `topics` creates.")
    replication_factor: Count = Field(default=1, description="Replicas of the topics that `topics` creates.")

    @model_validator(mode="after")
    def _one_security(self) -> Self:
        if problems := contradictions(self.security_protocol, self.tls, self.sasl):
            raise ValueError("; ".join(problems))
        return self

    @property
    def indexing(self) -> Self:
        """The same for the indexing flow, whose replicas are a consumer group of their own."""
        return self.model_copy(update={"group_id": f"{self.group_id}-indexing"})


class DeliverySettings(Section):
    """How answers get back: exactly once in transactions, or at least once for brokers that have none."""

    mode: Literal["exactly_once", "at_least_once"] = "exactly_once"
    replica: str = Field(
        default_factory=socket.gethostname,
        description="A name that a successor has too: it fences what its predecessor left open.",
    )
    max_in_flight: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=256, description="Queries read but not yet committed."
    )
    transaction_interval: Seconds | None = Field(
        default=None, description="From one transaction's begin to the next's; missing: what suits the client."
    )
    drain_timeout: Seconds = 30.0
    watchdog: Seconds = Field(default=60.0, description="The worker or the group may stand still for so long.")


class Limits(Section):
    """Bounds on what a query may ask."""

    timeout: Seconds = 10.0
    max_timeout: Seconds = 60.0
    max_message_bytes: Count = 262_144
    max_document_bytes: Count = 1_000_000
    max_text_chars: Count = 8192
    overrides: Allowed | None = Field(
        default=None,
        description="Recipe parameters that a query may change, such as score.alpha, and within what; null: all.",
    )
