"""The configuration's hash: two answers may differ by it exactly when they could differ."""

import copy
import functools
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from schemas.errors import ConfigError
from schemas.settings import (
    ChatSettings,
    FirewallSettings,
    PolicySettings,
    Settings,
    SourcePolicy,
    SparseEncoderSettings,
    load,
)
from schemas.settings.delivery import ReplySettings
from schemas.settings.policies import Deny
from schemas.settings.section import ModelServer

LEAST = {"qdrant": {"url": "http://qdrant:6333"}}


def paths_of(section: type[BaseModel], path: str = "") -> list[str]:
    """The path of every setting."""
    found = []
    for name, field in section.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            found += paths_of(inner, f"{path}{name}.")
        else:
            found.append(f"{path}{field.alias or name}")
    return found


def value_at(settings: Settings, path: str) -> Any:
    """The setting at a path."""
    names = ("returned" if name == "return" else name for name in path.split("."))
    return functools.reduce(getattr, names, settings)


NOTES: dict[str, Any] = {"qdrant": {**LEAST["qdrant"], "collections": {"default": {"notes": "notes"}}}}
LISTS = [name for name, field in SourcePolicy.model_fields.items() if field.annotation == list[str]]

MODELS = ("embedder", "sparse_encoder", "rerank", "chat")

CHANGED = {
    "defaults.min_relevance": 0.5,
    "experiments": {"words": {"recipe": "keyword"}},
    "defaults.recipe": "rrf",
    "qdrant.url": "http://other",
    "qdrant.destinations": {"default": "others"},
    "qdrant.collections": NOTES["qdrant"]["collections"],
    "qdrant.indexes": {"year": "integer"},
    "qdrant.analysers": {"documents": {"language": "none"}},
    "qdrant.columns": {"heading": "title"},
    "qdrant.search_fields": {"title": 2.0, "sku": 1.0},
    "qdrant.read_fields": ["title"],
    "qdrant.fields": {"text": "page_content"},
    "qdrant.ids": "integer",
    "qdrant.namespaces": "none",
    "qdrant.idf": "collection",
    "qdrant.vectors.tokens_datatype": "float16",
    "qdrant.search.hnsw_ef": 300,
    "qdrant.owned": ["documents"],
    "qdrant.create.replication_factor": 2,
    "qdrant.create.write_consistency_factor": 2,
    "qdrant.create.on_disk_payload": False,
    "qdrant.create.on_disk": True,
    "qdrant.create.m": 32,
    "qdrant.create.ef_construct": 200,
    "qdrant.create.quantization": "scalar",
    "qdrant.bm25.b": 0.5,
    "qdrant.bm25.language": "german",
    "qdrant.bm25.languages": {"de": "german"},
    "qdrant.bm25.accents": "fold",
    "policies.identity.by": "header",
    "policies.identity.topics": {"queries": "a"},
    "policies.sources": {"a": {"read": False}},
    "policies.files": [str(Path(__file__).parents[2] / "data" / "policies.yaml")],
    "policies.default.overrides": {"score.alpha": {"max": 0.5}},
    "policies.default.decay": {"half_life_days": 3.0},
    "policies.default.clearance": "internal",
    "policies.default.hidden_fields": ["cost"],
    "policies.default.filters": [{"field": "lang", "op": "eq", "value": "de"}],
    "policies.default.return": {"text": 300},
    **{f"policies.default.{name}": ["other"] for name in LISTS},
    **{f"policies.default.deny.{name}": ["other"] for name in Deny.model_fields},
    **{f"policies.default.{name}operations": ["read"] for name in ("", "deny.")},
    "policies.default.destinations": ["default"],
    "policies.default.reply_to": ["results"],
    "policies.default.deny.destinations": ["default"],
    **{f"policies.default.{name}": ["fast"] for name in ("retrieval_modes", "allowed_profiles")},
    **{f"policies.default.deny.{name}": ["fast"] for name in ("retrieval_modes", "profiles")},
    "firewall.blocked_labels": ["other"],
    "firewall.required_labels": ["other"],
    "firewall.namespaces": {"public": "internal"},
    "cursor.signing_secret": "0123456789abcdef",
    "embedder.kind": "none",
    "embedder.url": "http://other",
    "rerank.kind": "none",
    "rerank.url": "http://other",
    "sparse_encoder.kind": "openai",
    "sparse_encoder.url": "http://other",
    "embedder.prompts": "e5",
    "embedder.dimensions": 256,
    "embedder.precision": "int8",
    "rerank.precision": "int8",
    "rerank.file": "model_O3.onnx",
    "rerank.mode": "pick",
    "rerank.omitted": "drop",
    "rerank.prompts": "qwen3",
    "rerank.query_template": "query: {query}",
    "rerank.document_template": "passage: {document}",
    "rerank.max_batch": 7,
    "rerank.max_concurrency": 7,
    "kafka.session_timeout": 7,
    "kafka.compression": "zstd",
    **{f"kafka.{name}": {"fetch.min.bytes": 1} for name in ("options", "consumer_options", "producer_options")},
    "kafka.topics.reply_to": ["answers"],
    "kafka.schema_registry.url": "http://other",
    "kafka.security_protocol": "SSL",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.token_url": "http://other",
    "kafka.sasl.aws_region": "eu-central-1",
    "kafka.sasl.extensions": {"logicalCluster": "lkc-1"},
    "kafka.client": "kafka-python",
    "documents.envelope": "debezium",
    "documents.columns": {"id": "sku"},
    "documents.ids": "integer",
    "documents.formats": {"price": "decimal_comma"},
    "documents.html.fields": ["text"],
    "documents.html.keep_original": True,
    "documents.markdown.fields": ["text"],
    "documents.markdown.keep_original": True,
    "documents.expire_after": {"sessions": 86400.0},
    "delivery.mode": "at_least_once",
    "delivery.max_in_flight": 10,
    "delivery.refusals": "dead_letter",
    **{f"delivery.replies.{name}": ["other"] for name in ReplySettings.model_fields},
    "delivery.transaction_interval": 0.5,
    "chat.kind": "openai",
    "chat.url": "http://other",
    "chat.structured": "tool",
    "chat.parameters": {"top_p": 0.5},
    "profiles": {"fast": {"over_sample": 10}},
    "recipes": {"mine": {"stages": ["rrf"]}},
    "decay.destinations": {"default": {"half_life_days": 3.0}},
    "decay.collections": {"default": {"notes": {"half_life_days": 3.0}}},
    "limits.overrides": {"score.alpha": {"max": 0.5}},
    "telemetry.log_level": "debug",
    "threads": 2,
    "telemetry.log_format": "console",
    **{f"{name}.headers": {"x-gateway": "a"} for name in ("qdrant", *MODELS)},
    **{f"{name}.header_files": {"x-gateway": "/h"} for name in ("qdrant", *MODELS)},
    **{f"{name}.request_path": "/other" for name in MODELS},
    **{f"{name}.query": {"api-version": "1"} for name in MODELS},
    **{f"{name}.body": {"truncate": True} for name in MODELS},
}
"""Values for settings that can't be changed by adding to them."""


TLS: dict[str, Any] = {"kafka": {"security_protocol": "SSL"}}
KEY: dict[str, Any] = {"kafka": {"security_protocol": "SSL", "tls": {"certificate_file": "/c", "key_file": "/k"}}}


def sasl(**settings: str) -> dict[str, Any]:
    """SASL, set so far as it must be."""
    return {"kafka": {"security_protocol": "SASL_SSL", "sasl": settings}}


def registry(**settings: str) -> dict[str, Any]:
    """A schema registry, set so far as it must be."""
    return {"kafka": {"schema_registry": {"url": "http://registry", **settings}}}


USER = {"mechanism": "PLAIN", "username": "u"}
CLIENT = {"mechanism": "OAUTHBEARER", "token_url": "http://t", "client_id": "c"}
ONNX: dict[str, Any] = {"rerank": {"kind": "onnx", "path": "/m"}}
SERVED: dict[str, Any] = {"rerank": {"kind": "sglang", "url": "http://r"}}
PAIRS: dict[str, Any] = {"rerank": {"kind": "vllm_score", "url": "http://r"}}
CHAT: dict[str, Any] = {"chat": {"kind": "openai", "url": "http://c", "model": "m"}}
JUDGED: dict[str, Any] = {"rerank": {"kind": "chat"}, **CHAT}
EMBEDDER: dict[str, Any] = {"embedder": {"kind": "tei", "url": "http://e"}, "rerank": {"kind": "none"}}
PROMPTED = (
    *("prompts", "query_prefix", "document_prefix", "query_prompt_name", "document_prompt_name"),
    "dimensions",
)
ENCODED = ("sparse_encoder.kind", "sparse_encoder.model", "sparse_encoder.body", "qdrant.vectors.learned")
ENCODER: dict[str, Any] = {
    "sparse_encoder": {"kind": "tei", "url": "http://s", "model": "m"},
    "qdrant": {**LEAST["qdrant"], "vectors": {"learned": "learned"}},
}
OF_SERVERS = (*paths_of(ModelServer), "model")


def section(name: str, least: dict[str, Any]) -> dict[str, Any]:
    """The least configuration with a server for each key of this section that has an effect with one alone."""
    kind = {f"{name}.{key}": least for key in OF_SERVERS}
    keyed = {name: {**least[name], "api_key_file": "/k"}}
    return {**kind, f"{name}.api_key_header": {**least, **keyed}}


BESIDE = {
    "experiments": {"kafka": {"topics": {"experiments": "experiments"}}},
    **section("embedder", EMBEDDER),
    **section("rerank", SERVED),
    **section("chat", CHAT),
    **section("sparse_encoder", ENCODER),
    **{f"chat.{key}": CHAT for key in ChatSettings.model_fields if key not in OF_SERVERS},
    **{f"sparse_encoder.{key}": ENCODER for key in SparseEncoderSettings.model_fields if key not in OF_SERVERS},
    **dict.fromkeys(ENCODED, ENCODER),
    **{f"embedder.{name}": EMBEDDER for name in PROMPTED},
    "embedder.precision": {},
    **{f"rerank.{name}": SERVED for name in ("max_batch_chars", "omitted", "cache")},
    **{f"rerank.{name}": SERVED for name in ("prompts", "instruction", "query_template", "document_template")},
    **{f"rerank.{name}": ONNX for name in ("path", "file", "precision")},
    "rerank.trusted": PAIRS,
    **{f"rerank.{name}": JUDGED for name in ("mode", "max_doc_chars")},
    **{f"documents.{name}.keep_original": {"documents": {name: {"fields": ["text"]}}} for name in ("html", "markdown")},
    "qdrant.api_key_header": {"qdrant": {**LEAST["qdrant"], "api_key_file": "/k"}},
    **{
        f"qdrant.context.{key}": {"qdrant": {**LEAST["qdrant"], "context": {"order_by": "turn"}}}
        for key in ("before", "after")
    },
    **{
        path: {"firewall": {"enabled": False}}
        for path in (
            *(f"firewall.{each}" for each in FirewallSettings.model_fields if each != "enabled"),
            *(f"policies.default.{each}" for each in ("clearance", "blocked_labels", "required_labels")),
        )
    },
    "qdrant.context.group_by": {"qdrant": {**LEAST["qdrant"], "context": {"order_by": "turn"}}},
    "decay.collections": NOTES,
    "policies.identity.by": {"policies": {"identity": {"header": "x-source"}}},
    "policies.identity.header": {"policies": {"identity": {"by": "header"}}},
    "policies.identity.topics": {"policies": {"identity": {"by": "topic"}}},
    "chat.kind": {"chat": {"kind": "none", "url": "http://c", "model": "m"}},
    "embedder.kind": {},
    "rerank.kind": {},
    "kafka.tls.ca_file": TLS,
    "kafka.tls.certificate_file": KEY,
    "kafka.tls.key_file": KEY,
    "kafka.tls.key_password": KEY,
    "kafka.tls.key_password_file": KEY,
    "kafka.tls.check_hostname": TLS,
    **{f"kafka.schema_registry.{name}": registry() for name in ("ca_file", "request_timeout")},
    **{f"kafka.schema_registry.{name}": registry(username="u") for name in ("password", "password_file")},
    "defaults.destination": {"qdrant": {**LEAST["qdrant"], "destinations": {"defaultother": "documents"}}},
    **{
        f"policies.default.{name}collections": {
            "qdrant": {**LEAST["qdrant"], "collections": {"default": {"other": "others"}}}
        }
        for name in ("", "deny.")
    },
    "kafka.schema_registry.username": registry(username="u", password_file="/p"),
    "kafka.sasl.mechanism": sasl(**USER, password_file="/p"),
    "kafka.sasl.username": sasl(**USER, password_file="/p"),
    "kafka.sasl.password": sasl(**USER),
    "kafka.sasl.password_file": sasl(**USER),
    "kafka.sasl.aws_region": sasl(mechanism="OAUTHBEARER"),
    "kafka.sasl.extensions": sasl(mechanism="OAUTHBEARER", token_file="/t"),
    "kafka.sasl.token_file": sasl(mechanism="OAUTHBEARER"),
    "kafka.sasl.token_url": sasl(**CLIENT, client_secret_file="/s"),
    "kafka.sasl.client_id": sasl(**CLIENT, client_secret_file="/s"),
    "kafka.sasl.client_secret": sasl(**CLIENT),
    "kafka.sasl.client_secret_file": sasl(**CLIENT),
    "kafka.sasl.scope": sasl(**CLIENT, client_secret_file="/s"),
}
"""The settings that must be set together with one that can't be set alone."""


def another(path: str, value: object) -> Any:
    """A value that the setting could have in place of this one."""
    if path in CHANGED:
        return CHANGED[path]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value - 1 if value > 1 else value + 1
    if isinstance(value, float):
        return value / 2 or 0.5
    return f"{value or ''}other"


def with_value(document: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A copy of the document with this value at the path."""
    made = copy.deepcopy(document)
    place = made
    *sections, name = path.split(".")
    for step in sections:
        place = place.setdefault(step, {})
    place[name] = value
    return made


def unchanged(path: str) -> Settings:
    """The least configuration in which the setting can have another value; LEAST if there is none without that."""
    try:
        return load(None, {**LEAST, **BESIDE.get(path, {})})
    except ConfigError:
        return load(None, LEAST)


def changed(path: str, value: object) -> Settings:
    """The same with the setting changed."""
    return load(None, with_value({**LEAST, **BESIDE.get(path, {})}, path, another(path, value)))


DECIDES = {
    "qdrant.fields",
    "qdrant.ids",
    "qdrant.namespaces",
    "qdrant.dimension",
    "qdrant.destinations",
    "qdrant.collections",
    "qdrant.indexes",
    "qdrant.analysers",
    "qdrant.columns",
    "qdrant.search_fields",
    "qdrant.read_fields",
    "qdrant.idf",
    "qdrant.vectors.dense",
    "qdrant.vectors.sparse",
    "qdrant.vectors.tokens",
    "qdrant.vectors.tokens_datatype",
    "qdrant.vectors.dense_context",
    "qdrant.vectors.sparse_context",
    "qdrant.vectors.fuzzy",
    *ENCODED,
    "qdrant.context.order_by",
    "qdrant.context.group_by",
    "qdrant.context.before",
    "qdrant.context.after",
    "qdrant.search.hnsw_ef",
    "qdrant.create.shards",
    "qdrant.create.m",
    "qdrant.create.ef_construct",
    "qdrant.create.quantization",
    "qdrant.bm25.k",
    "qdrant.bm25.b",
    "qdrant.bm25.languages",
    "qdrant.bm25.accents",
    "qdrant.bm25.avg_len",
    "qdrant.bm25.language",
    "embedder.kind",
    "embedder.model",
    *(f"embedder.{name}" for name in PROMPTED),
    "embedder.precision",
    "embedder.body",
    "rerank.kind",
    "rerank.model",
    "rerank.path",
    "rerank.file",
    "rerank.precision",
    "rerank.body",
    "rerank.mode",
    "rerank.idf",
    "rerank.omitted",
    "rerank.on_the_fly",
    "rerank.prompts",
    "rerank.instruction",
    "rerank.query_template",
    "rerank.document_template",
    "rerank.max_doc_chars",
    "rerank.max_batch_chars",
    "chat.kind",
    "chat.model",
    "chat.max_tokens",
    "chat.body",
    "chat.structured",
    "chat.parameters",
    "profiles",
    "recipes",
    "decay.destinations",
    "experiments",
    "decay.collections",
    "cache.clock_bucket",
    "cache.threshold",
    "defaults.namespace",
    "defaults.destination",
    "defaults.min_relevance",
    "defaults.recipe",
    "documents.envelope",
    "documents.columns",
    "documents.ids",
    "documents.formats",
    "documents.html.fields",
    "documents.html.keep_original",
    "documents.markdown.fields",
    "documents.markdown.keep_original",
    "documents.expire_after",
    *(f"policies.{path}" for path in paths_of(PolicySettings) if path not in {"default.reply_to", "files"}),
    *(f"firewall.{path}" for path in paths_of(FirewallSettings)),
}
"""The settings that can change an answer, written down a second time on purpose."""

PATHS = sorted(set(paths_of(Settings)) - {"qdrant.path"})
"""All but the other place for Qdrant, which excludes the first."""


def test_the_hash_changes_with_what_can_change_an_answer() -> None:
    """Every single setting is tried: the hash changes with those that decide an answer, and with no other."""
    for path in PATHS:
        before = unchanged(path)
        after = changed(path, value_at(before, path))
        assert value_at(after, path) != value_at(before, path)
        assert (after.config_hash() != before.config_hash()) == (path in DECIDES), f"{path}: compare DECIDES"


def test_the_hash_is_the_same_everywhere() -> None:
    """Equal settings have equal hashes, the order of a mapping doesn't count, and every setting was tried."""
    one = load(None, {"qdrant": {"url": "http://a", "destinations": {"x": "1", "y": "2"}}})
    other = load(None, {"qdrant": {"url": "http://b", "destinations": {"y": "2", "x": "1"}}})
    assert one.config_hash() == other.config_hash()
    assert len(one.config_hash()) == 64
    assert set(PATHS) >= DECIDES
