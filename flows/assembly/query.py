"""The parts that decide about queries and documents before any backend is called, made of the settings."""

from functools import lru_cache

from operators.access.indexes import ORDERING
from operators.delivery import credentials
from operators.experiments.impression import TokenCodec
from operators.indexing.decode import DocumentDecoder
from operators.mapping.own_names import OwnNames
from operators.query.collection import ORDERED, Destinations
from operators.query.cursor import CursorCodec
from operators.query.field_map import FieldMap
from operators.query.normalise import Normaliser
from operators.query.plan import Planner
from operators.query.rules import RuleTable
from operators.query.search_bodies import Bodies
from operators.ranking.run import Wording
from operators.stages.decode import Decoder
from operators.telemetry.traces import Signals
from operators.wire.reply import Replies
from schemas.errors import ConfigError
from schemas.pool import ScoreMeasure
from schemas.result import FUZZY, KEYWORD, KEYWORD_CONTEXT, LEARNED, VECTOR, VECTOR_CONTEXT
from schemas.settings import QdrantSettings, RerankSettings, Settings
from schemas.settings.root import MIN_SECRET


def destinations(settings: QdrantSettings) -> Destinations:
    """The Qdrant collections of all destinations."""
    return Destinations(settings.destinations, settings.collections)


def field_map(settings: Settings) -> FieldMap:
    """The map of our names to those of the configured collections."""
    section = settings.qdrant
    namespace = settings.defaults.namespace if section.namespaces == "none" else None
    return FieldMap(section.fields, section.ids, namespace, not section.of_another_tool)


def ordering_fields(settings: QdrantSettings) -> frozenset[str]:
    """The fields that lookups can be ordered by."""
    return frozenset({*ORDERED, *(name for name, kind in settings.indexes.items() if kind in ORDERING)})


def bodies(settings: QdrantSettings) -> Bodies:
    """The bodies of each leg's searches."""
    names = settings.vectors
    vectors = {
        VECTOR: names.dense,
        KEYWORD: names.sparse,
        VECTOR_CONTEXT: names.dense_context,
        KEYWORD_CONTEXT: names.sparse_context,
        LEARNED: names.learned,
        FUZZY: names.fuzzy,
    }
    by_namespace = settings.idf == "namespace"
    return Bodies(vectors, by_namespace, destinations(settings), settings.indexes, settings.search.hnsw_ef)


def cursors(settings: Settings) -> CursorCodec:
    """Writes and reads cursors. Raises ConfigError for a secret that cannot be used."""
    secret = _secret(settings)
    return CursorCodec(secret.encode() if secret is not None else None)


def tokens(settings: Settings) -> TokenCodec | None:
    """Writes and reads the tokens of results; None without a secret.

    Raises ConfigError for one that can't be used, and without one where an experiment needs tokens.
    """
    secret = _secret(settings)
    mixed = [name for name, each in settings.experiments.items() if each.mode == "interleave"]
    if secret is None and mixed:
        needs = "tokens of results are signed; set cursor.signing_secret, or cursor.signing_secret_file"
        raise ConfigError(f"experiments.{mixed[0]}.mode: interleave: {needs}")
    return TokenCodec(secret.encode()) if secret is not None else None


def _secret(settings: Settings) -> str | None:
    secret = credentials.secret(settings.cursor, "cursor", "signing_secret")
    if secret is not None and len(secret) < MIN_SECRET:
        raise ConfigError(f"cursor.signing_secret_file: at least {MIN_SECRET} characters are expected")
    return secret


def planner(settings: Settings) -> Planner:
    """Plans how queries are ranked."""
    chat, names = settings.chat.kind != "none", own_names(settings)
    analysers = (settings.qdrant.bm25, *settings.qdrant.analysers.values())
    return Planner(
        settings.profiles,
        settings.recipes,
        settings.limits.overrides,
        settings.decay,
        chat,
        settings.defaults,
        field_map(settings),
        settings.kafka.topics.rules is not None,
        Wording(
            frozenset(name for each in analysers for name in (each.language, *each.languages.values())),
            # Each field of each candidate is looked up.
            lru_cache(1024)(names.own) if names is not None else str,
        ),
    )


def own_names(settings: Settings) -> OwnNames | None:
    """The names and ids that documents have at their senders; None where these are the index's."""
    columns, whole_ids = settings.documents.columns, settings.documents.ids == "integer"
    return OwnNames(columns, whole_ids) if columns or whole_ids else None


def rule_table(settings: Settings) -> RuleTable:
    """A table for rules, which name fields as documents' senders do."""
    names = own_names(settings)
    return RuleTable(names.read) if names is not None else RuleTable()


def expression_columns(settings: Settings) -> dict[str, str]:
    """The names of searched fields in keyword expressions: the documents' own, and those of the index that are free."""
    own = {column: field for field, column in settings.documents.columns.items()}
    free = {name: field for name, field in settings.qdrant.column_names.items() if name not in own}
    searched = settings.qdrant.search_fields
    return free | {name: field for name, field in own.items() if field in searched and name.isalnum()}


def selects(settings: RerankSettings) -> bool:
    """True if the reranker only says which candidate is the best."""
    return settings.kind == "chat" and settings.mode == "pick"


def replies(settings: Settings) -> Replies:
    """Chooses the places of results, and the headers that return on them."""
    topics = settings.kafka.topics
    chosen = (topics.results, *topics.reply_to)
    return Replies(chosen, settings.delivery.replies, settings.policies)


def score_measure(settings: RerankSettings) -> ScoreMeasure:
    """The measure of the reranker's scores."""
    if settings.kind == "chat":
        return "order"
    if settings.kind == "late_interaction":
        return "similarity"
    return "logit" if settings.kind in {"onnx", "nim"} else "share"


def decoder(settings: Settings, signals: Signals) -> Decoder:
    """Turns messages into queries. Raises ConfigError for a secret that cannot be used."""
    normaliser = Normaliser(
        destinations(settings.qdrant),
        settings.defaults,
        settings.policies,
        settings.firewall,
        planner(settings),
        cursors(settings),
        replies(settings),
        settings.config_hash(),
    )
    record_content = settings.telemetry.record_content
    names = own_names(settings) if settings.documents.columns else None
    return Decoder(settings.limits, settings.qdrant.dimension, record_content, signals, normaliser, names)


def document_decoder(settings: Settings) -> DocumentDecoder:
    """Turns messages into documents."""
    return DocumentDecoder(
        settings.limits.max_document_bytes,
        destinations(settings.qdrant),
        settings.defaults.destination,
        settings.defaults.namespace,
        settings.qdrant.dimension,
        settings.documents,
        tuple(settings.qdrant.read_fields),
        tuple(settings.qdrant.search_fields),
        tuple(field for field, kind in settings.qdrant.indexes.items() if kind == "geo"),
    )
