"""Payload indexes, and the analysers of texts, in Qdrant's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from qdrant_edge import (
    BoolIndexParams,
    DatetimeIndexParams,
    DisabledStemmer,
    FloatIndexParams,
    GeoIndexParams,
    IntegerIndexParams,
    KeywordIndexParams,
    Language,
    SnowballLanguage,
    SnowballParams,
    StopwordsSet,
    TextIndexParams,
    TokenizerType,
    UuidIndexParams,
)

from tests.qdrant_server.refusals import bad_request

if TYPE_CHECKING:
    # Names of the engine's type stubs only.
    from qdrant_edge import PayloadSchemaParams

INDEXES: Mapping[str, Any] = {
    "bool": BoolIndexParams,
    "datetime": DatetimeIndexParams,
    "float": FloatIndexParams,
    "geo": GeoIndexParams,
    "integer": IntegerIndexParams,
    "keyword": KeywordIndexParams,
    "text": TextIndexParams,
    "uuid": UuidIndexParams,
}

SHORT = "short"

_SHOWN: Mapping[str, Mapping[str, Any]] = {
    "datetime": {"is_principal": None},
    "float": {"is_principal": None},
    "text": {"tokenizer": "word"},
}


def index_params(schema: str | Mapping[str, Any]) -> PayloadSchemaParams:
    """The engine's payload index for a field's schema; raises Refusal, TypeError or AttributeError."""
    options = {"type": schema} if isinstance(schema, str) else dict(schema)
    kind = options.pop("type")
    if kind not in INDEXES:
        raise bad_request(f"unknown variant `{kind}`, expected one of {', '.join(sorted(INDEXES))}")
    params: PayloadSchemaParams = INDEXES[kind](**analyser_options(options))
    return params


def describe_index(schema: Mapping[str, Any], points: int) -> dict[str, Any]:
    """One entry of a description's `payload_schema`."""
    kind = schema["type"]
    if SHORT in schema:
        return {"data_type": kind, "points": points}
    return {"data_type": kind, "params": {**_SHOWN.get(kind, {}), **schema}, "points": points}


def analyser_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Qdrant's JSON options as the engine's keyword arguments; raises AttributeError or TypeError for unknown words."""
    read: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if "tokenizer" in read:
        read["tokenizer"] = getattr(TokenizerType, read["tokenizer"].capitalize())
    if "stopwords" in read:
        read["stopwords"] = _stopwords(read["stopwords"])
    if "stemmer" in read:
        stemmer = read["stemmer"]
        disabled = stemmer["type"] == "none"
        read["stemmer"] = (
            DisabledStemmer()
            if disabled
            else SnowballParams(getattr(SnowballLanguage, stemmer["language"].capitalize()))
        )
    if "scoring" in read:
        read["scoring"] = bool(read["scoring"])
    return read


def _stopwords(words: Any) -> Language | StopwordsSet:
    if isinstance(words, str):
        language: Language = getattr(Language, words.capitalize())
        return language
    languages = {getattr(Language, name.capitalize()) for name in words.get("languages") or ()}
    return StopwordsSet(languages=languages, custom=set(words.get("custom") or ()))
