"""Sections `kafka`, `delivery` and `limits`: the broker, the guarantee of delivery, and bounds on queries."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

from schemas.errors import unknown
from schemas.fields import Index, Newer, Point
from schemas.settings.ranking import Allowed
from schemas.settings.section import AS_WRITTEN, MASK, Count, Seconds, Secret, Section, Url
from schemas.settings.topics import Topics

KafkaHeader = Annotated[str, Field(min_length=1, max_length=200)]
"""The name of a header of Kafka's messages."""

TokenUrl = Annotated[
    str,
    Field(pattern=r"^https?://[^\s/?#@\\]+(/[^\s?#]*)?(\?[^\s#]*)?$"),
    PlainSerializer(lambda url: re.sub(r"\?.*", f"?{MASK}", url), when_used="json-unless-none"),
]
"""An issuer's, whose query is a part of its address, and may be a key: as JSON it is masked."""

DeliveryMode = Literal["exactly_once", "at_least_once"]
Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]

_PASSWORD: Final = ("username", "password", "password_file")
_CLIENT: Final = ("client_id", "client_secret", "client_secret_file", "scope")
_SOURCES: Final = ("token_file", "token_url", "aws_region")
_TOKEN: Final = (*_SOURCES, *_CLIENT, "extensions")


def _not_auth(name: str) -> str:
    if name.lower() == "auth":
        raise ValueError("the token's own name")
    return name


Extensions = dict[
    Annotated[str, Field(pattern=r"^[A-Za-z]+$"), AfterValidator(_not_auth)],
    Annotated[str, Field(pattern=r"^[\x20-\x7e]+$")],
]
"""SASL extensions, as RFC 7628, 3.1, writes them."""


class TlsSettings(Section):
    """TLS, for SSL and SASL_SSL. Every file is PEM."""

    ca_file: Path | None = Field(default=None, description="Trusted authorities; null: those of the system.")
    certificate_file: Path | None = Field(default=None, description="Client certificate, for brokers that require one.")
    key_file: Path | None = Field(default=None, description="Private key of the client certificate.")
    key_password: Secret = None
    key_password_file: Path | None = Field(default=None, description="File that holds the password of the key.")
    check_hostname: bool = Field(default=True, description="Check that the broker's certificate names its host.")

    def contradictions(self) -> Iterator[str]:
        if (self.certificate_file is None) != (self.key_file is None):
            yield "certificate_file and key_file need each other"
        if self.key_file is None and self.find_changed(("key_password", "key_password_file")):
            yield "key_password needs key_file"


class SaslSettings(Section):
    """SASL, for SASL_PLAINTEXT and SASL_SSL: user and password, or a token of a file, an OAuth 2 issuer or AWS IAM."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = None
    """null: no SASL."""
    username: str | None = Field(default=None, description="User, for PLAIN and SCRAM.")
    password: Secret = None
    password_file: Path | None = Field(default=None, description="File that holds the password.")
    token_file: Path | None = None
    """For OAUTHBEARER: file with a token; it is read again when it is renewed."""
    token_url: TokenUrl | None = None
    """For OAUTHBEARER: issuer of tokens, by OAuth 2 client credentials."""
    client_id: str | None = Field(default=None, description="Client id for `token_url`.")
    client_secret: Secret = None
    client_secret_file: Path | None = Field(default=None, description="File that holds the client secret.")
    scope: str | None = Field(default=None, description="Scope of the requested token; null: the issuer's default.")
    aws_region: str | None = Field(default=None, pattern=r"^[a-z]+(-[a-z0-9]+)+$")
    """For OAUTHBEARER with IAM of Amazon MSK: region of the cluster; it uses AWS's default credentials and needs the
    extra `msk`."""
    extensions: Annotated[Extensions, AS_WRITTEN] = Field(default={})
    """For OAUTHBEARER: SASL extensions, such as logicalCluster and identityPoolId of Confluent Cloud."""

    def __hash__(self) -> int:
        return hash((self.mechanism, self.username, self.token_file, self.token_url, self.client_id, self.aws_region))

    def contradictions(self) -> Iterator[str]:
        if self.mechanism is None:
            yield from self.find_unused((*_PASSWORD, *_TOKEN), "without mechanism; remove, or set it")
        elif self.mechanism != "OAUTHBEARER":
            yield from self.find_unused(_TOKEN, f"with {self.mechanism}; remove")
            yield from _find_absent(self, self.mechanism, ("username",), ("password", "password_file"))
        else:
            yield from self.find_unused(_PASSWORD, "with OAUTHBEARER; remove")
            if len(sources := self.find_changed(_SOURCES)) != 1:
                yield f"OAUTHBEARER needs one of {', '.join(_SOURCES)}"
            elif sources == ["token_url"]:
                yield from _find_absent(self, "token_url", ("client_id",), ("client_secret", "client_secret_file"))
            else:
                yield from self.find_unused(_CLIENT, f"with {sources[0]}; remove")


class SchemaRegistrySettings(Section):
    """A schema registry with Confluent's API, for events behind the id of a schema. It needs the extra `registry`."""

    url: Url | None = None
    """Address; null: only JSON is read behind the id of a schema."""
    username: str | None = Field(default=None, pattern=r"^[^:]+$", description="User, such as a key of the service.")
    password: Secret = None
    password_file: Path | None = Field(default=None, description="File that holds the password.")
    ca_file: Path | None = None
    """PEM file of trusted authorities; null: those of certifi, or of SSL_CERT_FILE."""
    request_timeout: Seconds = 5.0
    """Seconds for an answer; then the registry is asked again."""

    def contradictions(self) -> Iterator[str]:
        password = self.find_changed(("password", "password_file"))
        if self.url is None:
            yield from self.find_unused(type(self).model_fields, "without url; remove, or set it")
        if (self.username is None) != (not password):
            yield "username and password, or password_file, need each other"


def _find_absent(section: Section, needing: str, *needed: tuple[str, ...]) -> Iterator[str]:
    if absent := [names for names in needed if all(getattr(section, name) in (None, "") for name in names)]:
        yield f"{needing} needs {' and '.join(map(' or '.join, absent))}"


_SWITCHES: Final = {"yes": True, "on": True, "no": False, "off": False}


# A plain union would report one problem per member.
def _switch(value: object) -> object:
    """The value; a boolean for the words that other settings take for one, too. The libraries do not know all words."""
    if not isinstance(value, str | int | float):
        raise ValueError("a text, a number or a boolean is expected")
    return _SWITCHES.get(value.lower(), value) if isinstance(value, str) else value


Options = dict[
    Annotated[str, Field(pattern=r"^[a-z0-9]+(\.[a-z0-9]+)*$")],
    Annotated[str | bool | int | float, BeforeValidator(_switch)],
]
"""Options of the Kafka client library, by librdkafka's names. kafka-python has some of them, with underscores."""

_GUARANTEE: Final = "the guarantee of delivery depends on it"
_OWN: Final = "a key of the section kafka sets it"

_REFUSED: Final = {
    _GUARANTEE: (
        *("acks", "allow.auto.create.topics", "auto.commit.enable", "auto.commit.interval.ms", "auto.offset.reset"),
        *("batch.size", "debug", "delivery.timeout.ms", "enable.auto.commit", "enable.auto.offset.store"),
        *("enable.gapless.guarantee", "enable.idempotence", "enable.partition.eof", "group.instance.id"),
        *("group.protocol", "group.remote.assignor", "isolation.level", "log.connection.close", "log.level"),
        *("log.queue", "max.in.flight", "max.in.flight.requests.per.connection", "max.request.size"),
        *("message.max.bytes", "message.send.max.retries", "message.timeout.ms", "offset.store.method"),
        *("partition.assignment.strategy", "request.required.acks", "request.timeout.ms", "retries"),
        *("statistics.interval.ms", "transactional.id"),
    ),
    _OWN: (
        *("bootstrap.servers", "client.rack", "compression.codec", "compression.type", "group.id"),
        *("heartbeat.interval.ms", "max.poll.interval.ms", "metadata.broker.list", "session.timeout.ms"),
        *("socket.timeout.ms", "transaction.timeout.ms"),
    ),
}
_REASONS: Final = {name: reason for reason, names in _REFUSED.items() for name in names}

_BEGINNINGS: Final = {
    r"(ssl|sasl|security|https)\.": "kafka.security_protocol, kafka.tls and kafka.sasl are for that",
    r"plugin\.": "it loads code",
    r"test\.": "it is for tests of the library",
    r".*\.(cb|class|classes|serializer|deserializer|client)$": "it is no value",
}


def _refusal(option: str) -> str | None:
    """The reason why an option of the client library may not be given."""
    found = next((why for pattern, why in _BEGINNINGS.items() if re.match(pattern, option)), None)
    return _REASONS.get(option, found)


class KafkaSettings(Section):
    """The Kafka client, its connection, and the membership in the consumer group."""

    client: Literal["librdkafka", "kafka-python"] = "librdkafka"
    """Kafka client library; docs/why/delivery.md compares the two."""
    bootstrap_servers: str = Field(default="localhost:9092", pattern=r"^[^@/]*$")
    """host:port of brokers, comma-separated, without a scheme."""
    group_id: str = Field(default="rankstream", min_length=1)
    """Consumer group of the search flow; the others append -indexing and -feedback."""
    security_protocol: Protocol = Field(default="PLAINTEXT", description="Protocol of the brokers' listener.")
    tls: TlsSettings = TlsSettings()
    sasl: SaslSettings = SaslSettings()
    schema_registry: SchemaRegistrySettings = SchemaRegistrySettings()
    topics: Topics = Topics()
    session_timeout: float = Field(default=6.0, ge=6, le=10)
    """Seconds without heartbeats until the group removes a member."""
    heartbeat_interval: float = Field(default=2.0, ge=0.1, lt=10)
    """Seconds between two heartbeats; less than session_timeout."""
    max_poll_interval: float = Field(default=30.0, ge=6, le=3600)
    """Maximum seconds between two polls: after that, the group removes the member. The process ends if its group is
    unstable for longer. At least session_timeout."""
    # A transaction's records gather for a second, and have half of its time to be taken.
    transaction_timeout: float = Field(default=10.0, ge=3, le=3600)
    """Seconds after which the broker aborts an open transaction."""
    request_timeout: float = Field(default=30.0, ge=1.5, le=300)
    """Seconds to wait for the answer to one request."""
    offset_metadata: Annotated[int, Field(ge=256, le=1_048_576)] = 4096
    """Bytes that a commit may carry about messages answered out of order, at most the broker's
    offset.metadata.max.bytes. With less, more answers wait for an earlier one."""
    compression: Literal["lz4", "zstd", "gzip"] | None = None
    """Codec of results, dead letters and watermarks; null: none. See docs/reference/events.md."""
    rack: str | None = None
    """Zone of this process, as in the brokers' broker.rack: it reads from a replica there, where the cluster has a
    replica.selector.class. null or empty: from the leader."""
    options: Options = Field(default={})
    """More options of the client library, by librdkafka's names; those that the guarantee of delivery depends on are
    refused."""
    consumer_options: Options = Field(default={}, description="The same for consumers alone; they go before `options`.")
    producer_options: Options = Field(default={}, description="The same for producers alone; they go before `options`.")
    partitions: Count = 8
    """Partitions of the topics that `rankstream topics` creates; they bound the replicas."""
    replication_factor: Count = 1
    """Copies of those topics; 3 on a cluster that must survive the loss of a broker."""

    @property
    def transaction_request_timeout(self) -> float:
        """Seconds for which a request of a transaction is tried, and a record of one.

        Half of the transaction's time at most: its abort must come before the broker aborts it, which would fence us.
        """
        return min(self.request_timeout, self.transaction_timeout / 2)

    @property
    def options_of_consumers(self) -> Options:
        """The further options of a consumer, its rack among them."""
        rack: Options = {"client.rack": self.rack} if self.rack else {}
        return {**rack, **self.options, **self.consumer_options}

    @property
    def options_of_producers(self) -> Options:
        return {**self.options, **self.producer_options}

    def contradictions(self) -> Iterator[str]:
        protocol = self.security_protocol
        if not protocol.endswith("SSL") and self.tls != TlsSettings():
            yield f"tls: no effect with security_protocol {protocol}; remove, or set it to SSL or SASL_SSL"
        if protocol.startswith("SASL") and self.sasl.mechanism is None:
            yield f"security_protocol {protocol} needs sasl.mechanism"
        if not protocol.startswith("SASL") and self.sasl.mechanism is not None:
            yield f"sasl: no effect with security_protocol {protocol}; remove, or set it to SASL_PLAINTEXT or SASL_SSL"
        if not self.bootstrap_servers:
            yield "bootstrap_servers: the host:port of a broker is expected"
        if self.heartbeat_interval >= self.session_timeout:
            yield "heartbeat_interval must be less than session_timeout"
        if self.max_poll_interval < self.session_timeout:
            yield "max_poll_interval must be session_timeout at least"
        for key in ("options", "consumer_options", "producer_options"):
            reasons = {name: _refusal(name) for name in getattr(self, key)}
            yield from (f"{key}: {name}: {reason}" for name, reason in reasons.items() if reason is not None)

    @property
    def indexing(self) -> Self:
        """The same for the indexing flow, whose replicas are a consumer group of their own."""
        return self.model_copy(update={"group_id": f"{self.group_id}-indexing"})


class ReplySettings(Section):
    """The headers that choose the place of a result, and those that do not return on it. Case does not count."""

    topic_headers: list[KafkaHeader] = Field(default=["kafka_replyTopic", "REPLY_TOPIC", "reply-to", "reply_to"])
    """Headers that name the topic of the result, as the field `reply_to` does; []: none."""
    partition_headers: list[KafkaHeader] = Field(default=["kafka_replyPartition", "REPLY_PARTITION"])
    """Headers that name its partition, as four bytes or digits; []: none."""
    withheld_headers: list[KafkaHeader] = Field(default=["authorization", "proxy-authorization", "cookie", "x-api-key"])
    """Headers, or patterns with `*` and `?`, that do not return on the result; policies.identity's never does."""


class DeliverySettings(Section):
    """The commit of results and offsets, and the bound of messages in flight in a replica."""

    mode: DeliveryMode = Field(default="exactly_once", description="at_least_once: for brokers without transactions.")
    replica: str = Field(default_factory=socket.gethostname, min_length=1)
    """Name of the replica, unique and the same after a restart; default: the host's name."""
    max_in_flight: Annotated[int, Field(ge=1, le=1024)] = 512
    """Messages read and not committed; others wait in Kafka. More answer a backlog sooner, take more memory, and wait
    longer for a backend, within its `timeout`: lower it if answers of a burst lose parts to a `timeout`."""
    transaction_interval: Seconds | None = None
    """Seconds between the starts of two transactions, longer above 100 records a second, up to 0.06; null: 0.01 with
    librdkafka, 0.04 with kafka-python. More spends less CPU and answers later."""
    refusals: Literal["result_and_dead_letter", "dead_letter"] = "result_and_dead_letter"
    """Answer to a refused query: a result with the status `invalid`, if its query_id can be read, and a dead letter, in
    one transaction; or a dead letter alone."""
    replies: ReplySettings = ReplySettings()
    drain_timeout: Seconds = 30.0
    """Seconds after SIGTERM to finish what is in flight; SIGKILL must come later."""
    watchdog: Seconds = 60.0
    """Seconds without progress after which the process ends (exit 1)."""


class MarkupSettings(Section):
    """Fields of the index that are written in this language."""

    fields: list[str] = Field(default=[])
    """Fields whose text, without the markup, is searched, shown and highlighted."""
    keep_original: bool = False
    """Keep the markup in a field of its own, too: text_html beside text."""

    def contradictions(self) -> Iterator[str]:
        if not self.fields:
            yield from self.find_unused(["keep_original"], "without fields; remove, or name the fields")


def _known_formats(form: object) -> object:
    for name in form if isinstance(form, list | tuple) else [form]:
        if not isinstance(name, str):
            raise ValueError("a format is expected, or a list of formats")
        if "%" not in name and name not in (*FORMATS, *LISTS):
            raise ValueError(unknown(name, FORMATS, "format"))
    return form


FORMATS: Final = (
    *("integer", "decimal", "decimal_comma", "boolean"),
    *("iso_utc", "rfc2822", "words", "unix", "unix_ms", "unix_us"),
)
"""Forms of numbers and booleans in text, and of times. A time's may also be a pattern, such as %d.%m.%Y."""

LISTS: Final = ("|", ";", ",")
"""Forms of lists in text: the sign between their values."""

Format = Annotated[str | tuple[str, ...], BeforeValidator(_known_formats)]


class DocumentSettings(Section):
    """The form in which documents come."""

    envelope: Point[Literal["none", "debezium"]] = "none"
    """debezium: Debezium's rows, flattened or not; none: document events."""
    columns: Point[dict[str, str]] = Field(default={})
    """Field -> its name in the messages, such as a column, or title.rendered inside an object. Queries, results and
    errors use these names. {location.lat: latitude, location.lon: longitude} joins two columns to a point."""
    ids: Newer[Point[Literal["text", "integer", "content"]]] = Field(
        default="text",
        description="integer: ids are whole numbers in results, as in the documents; content: a document without an id"
        " gets a digest of its content.",
    )
    formats: Newer[Point[dict[str, Format]]] = Field(default={})
    """Field -> form of its values, or a list of forms to try: docs/how-to/own-documents.md has them."""
    html: Newer[Point[MarkupSettings]] = MarkupSettings()
    markdown: Newer[Point[MarkupSettings]] = MarkupSettings()
    expire_after: Index[dict[str, Annotated[float, Field(gt=0, le=1e10)]]] = Field(default={})
    """Namespace -> seconds from a document's version until it expires, if it has no `expires_at`."""

    @property
    def id_column(self) -> str:
        """The name of the id in the messages."""
        return self.columns.get("id", "id")


class Limits(Section):
    """Bounds on messages and on what a query may ask."""

    timeout: Seconds = Field(default=10.0, description="Seconds for a query without `timeout_ms`.")
    max_timeout: Seconds = Field(default=60.0, description="Greatest `timeout_ms` of a query, in seconds.")
    max_message_bytes: Count = 262_144
    """Bytes of a query message, value and headers; up to 1,000,000."""
    max_document_bytes: Count = 1_000_000
    """Bytes of a document message, value and headers; up to 1,000,000."""
    max_text_chars: Count = Field(default=8192, description="Characters of a query's text, after Unicode NFC.")
    overrides: Allowed | None = None
    """Recipe parameter -> bounds within which queries may override it; null: all parameters."""

    def contradictions(self) -> Iterator[str]:
        if self.timeout > self.max_timeout:
            yield "timeout: no effect above max_timeout; lower it, or raise max_timeout"
