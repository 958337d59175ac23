"""How a text becomes terms: the analyser's options, which text indexes and the BM25 model share."""

from collections.abc import Mapping
from typing import Any

from qdrant_edge import DisabledStemmer, Language, SnowballLanguage, SnowballParams, StopwordsSet, TokenizerType


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
