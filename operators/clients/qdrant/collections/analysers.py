"""Analysers: texts as sparse vectors of BM25 terms.

A collection's terms, in documents and in queries, are made with the parameters noted at its creation. So is the rule by
which its contexts are made. Collections of other programs, and those of versions before 0.2.0, have the terms that a
Qdrant server makes with its `qdrant/bm25`. The others have these, too, of texts in scripts with spaces; a document's
identifiers add terms, and nothing to its length.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import qdrant_edge
import structlog

from operators.clients.qdrant.answers import CollectionInfo
from operators.ranking.content import join_fields
from operators.text.analysis import analyse, fold_accents, fold_umlauts, lower_turkish
from operators.text.terms import SparseVector, terms_by_word
from operators.text.trigrams import trigrams_of_document
from operators.text.words import words as split_words
from schemas.document import COLUMNS, EXPIRES_AT, LANG
from schemas.errors import ConfigError
from schemas.settings import QdrantSettings
from schemas.settings.qdrant import Bm25Settings, Vectors, language_tag

log = structlog.stdlib.get_logger(__name__)

OURS: Final = "rankstream"
"""The key of a collection's metadata by which it is rankstream's."""

_BM25: Final = "bm25"

_ANALYSIS: Final = "analysis"

_FIELDS: Final = "fields"
ANY_COLUMN: Final = tuple((column, 1.0) for column in COLUMNS)
"""Title and text, of the same weight."""

PLAIN: Final = 1
CURRENT: Final = 2
"""Versions of the analysis: words as Qdrant has them; and identifiers, pairs of characters, and usual width, too."""

_COUNTING: Final = 1000.0
"""BM25's k by which a term's weight tells its count, to some ten thousand."""

_CONTEXTS: Final = "contexts"
_BY_ACCESS: Final = "same tier and labels"

_JOINED: Final = "stopwords"
"""The beginning of the term of a text that has stop words alone."""

_PROMPTS: Final = "prompts"
_EMBEDDER: Final = "embedder"

_EXPIRY: Final = "expiry"

Purposes = Mapping[str, Mapping[str, str]]
"""The prompts by which a model tells a `query` from a `document`: a prefix, and fields of the request."""

DEFAULT_FIELDS: Final = dict(ANY_COLUMN)

NO_LANGUAGE = "none"
_GERMAN: Final = frozenset({"german", "de"})
_TURKISH: Final = frozenset({"turkish", "tr"})


@dataclass(frozen=True, slots=True)
class Bm25Parameters:
    """The parameters of an index's terms, and of its queries' terms.

    `k` is the saturation of term frequency, `b` the share of length normalisation (0 to 1), `avg_len` the expected
    length of a document in terms. `language` chooses stemmer and stop words; "none" has neither. `analysis` is the
    version of the analysis. `fields` are searched, each with its weight. `languages` has those of documents by their
    field `lang`, which queries are searched in, too; `accents`: they count; `stop_words`: terms leave them out.
    """

    k: float = 1.2
    b: float = 0.75
    avg_len: float = 256.0
    language: str = "english"
    analysis: int = PLAIN
    fields: tuple[tuple[str, float], ...] = ANY_COLUMN
    languages: tuple[tuple[str, str], ...] = ()
    accents: bool = True
    stop_words: bool = True


class Bm25:
    """The analyser and the weights of one collection; raises ConfigError for parameters that the model refuses.

    `name` distinguishes it from every other, `columns` are the fields that it searches.
    """

    def __init__(self, parameters: Bm25Parameters | None = None) -> None:
        self.parameters = parameters or Bm25Parameters()
        self.name = repr(self.parameters)
        self.columns = tuple(field for field, _ in self.parameters.fields)
        counting = replace(self.parameters, k=_COUNTING, b=0.0)
        whole = replace(counting, stop_words=False)
        known = {self.parameters.language, *(language for _, language in self.parameters.languages)}
        self._by_lang = dict(self.parameters.languages)
        try:
            self._model = qdrant_edge.Bm25(_config(self.parameters))
            # In the order of their names: the terms of a query are the same in each process.
            self._counting = {
                name: qdrant_edge.Bm25(_config(replace(counting, language=name))) for name in sorted(known)
            }
            self._whole = {name: qdrant_edge.Bm25(_config(replace(whole, language=name))) for name in sorted(known)}
        except ValueError as error:
            raise ConfigError(f"bm25: {error}") from error

    def document(self, text: str) -> SparseVector:
        """Return an indexed text's terms, weighted by their frequency in it; without terms it is empty."""
        if self.parameters.analysis == PLAIN:
            return _sparse(self._model.embed_document(_readable(text)))
        return self._weigh([(text, 1.0)], self.parameters.language)[0]

    def payload(self, payload: Mapping[str, Any]) -> tuple[SparseVector, list[Collection[int]]]:
        """Return the terms of a document's searched fields, weighted by BM25F, and those of each field.

        A field of weight 3 counts as if it stood there three times; a term's frequency is saturated over all fields.
        Source: Robertson, Zaragoza and Taylor 2004, Simple BM25 extension to multiple weighted fields.
        """
        if self.parameters.analysis == PLAIN:
            each = [self.document(join_fields(payload, [column])).indices for column in COLUMNS]
            return self.document(join_fields(payload, COLUMNS)), list(each)
        texts = [(join_fields(payload, [field]), weight) for field, weight in self.parameters.fields]
        return self._weigh(texts, self._language(payload.get(LANG)))

    def trigrams(self, payload: Mapping[str, Any]) -> SparseVector:
        """Return the trigrams of the words of a document's searched fields."""
        fields = self.parameters.fields
        return trigrams_of_document([(_readable(join_fields(payload, [field])), weight) for field, weight in fields])

    def _language(self, lang: object) -> str:
        """The language of a document: `de-AT` is that of `de` unless it has its own."""
        tag = language_tag(lang) if isinstance(lang, str) else ""
        return self._by_lang.get(tag) or self._by_lang.get(tag.partition("-")[0]) or self.parameters.language

    def words(self, text: str) -> tuple[Mapping[str, Sequence[int]], Mapping[str, Sequence[int]]]:
        """Return the terms of each word of a query that has some, and those of each of its identifiers."""
        if self.parameters.analysis == PLAIN:
            return terms_by_word(text, self.query), {}
        analysed = analyse(_readable(text), query=True)
        words = terms_by_word(analysed.text, self._telling)
        identifiers = {name: self._model.embed_query(name).indices for name, _ in analysed.identifiers}
        if self._is_of_stop_words(analysed.text):
            identifiers[" ".join(split_words(analysed.text))] = self._join(analysed.text)
        return words, identifiers

    def _telling(self, text: str) -> SparseVector | None:
        """The terms of a word that is no stop word."""
        terms = sorted(self._weights(text, self._counting))
        return SparseVector(terms, [1.0] * len(terms)) if terms else None

    def _is_of_stop_words(self, text: str) -> bool:
        """True if the text has words, and a language has no other ones in it."""
        folded = {name: self._fold(text, name) for name in self._counting}
        return any(
            not model.embed_query(folded[name]).indices and self._whole[name].embed_query(folded[name]).indices
            for name, model in self._counting.items()
        )

    def _join(self, text: str) -> list[int]:
        """The term of a whole text of stop words; it begins like no word, so that no other text has it."""
        return list(self._model.embed_query(_JOINED + "".join(split_words(fold_accents(text)))).indices)

    def _weigh(self, texts: Sequence[tuple[str, float]], language: str) -> tuple[SparseVector, list[Collection[int]]]:
        counts: dict[int, float] = defaultdict(float)
        length = 0.0
        by_field: list[Collection[int]] = []
        for text, weight in texts:
            analysed = analyse(_readable(text), query=False)
            folded = self._fold(analysed.text, language)
            found = self._count(folded, language)
            length += weight * found.total()
            # Stop words don't make a document longer, and no document is marked with them.
            stop_words = self._count(folded, language, self._whole) - found
            for term, count in stop_words.items():
                counts[term] += weight * count
            if analysed.identifiers:
                # An identifier is of no language, and a query has it once.
                named = " ".join(name for name, _ in analysed.identifiers)
                found.update(self._count(named, self.parameters.language))
            elif stop_words and not found:
                found.update(self._join(analysed.text))
            by_field.append(found.keys())
            for term, count in found.items():
                counts[term] += weight * count
        k, b = self.parameters.k, self.parameters.b
        norm = k * (1 - b + b * length / self.parameters.avg_len)
        weighed = sorted((term, count * (k + 1) / (count + norm)) for term, count in counts.items())
        return SparseVector([term for term, _ in weighed], [weight for _, weight in weighed]), by_field

    def query(self, text: str) -> SparseVector | None:
        """Return a query's terms, each of weight 1, or None if it has none. Stop words are left out with others.

        An identifier weighs as much as the words that it joins: it says as much.
        """
        text = _readable(text)
        if self.parameters.analysis == PLAIN:
            sparse = _sparse(self._model.embed_query(text))
            return sparse if sparse.indices else None
        analysed = analyse(text, query=True)
        weights = self._weights(analysed.text, self._counting)
        for name, joined in analysed.identifiers:
            for term in self._model.embed_query(name).indices:
                weights[term] = max(weights.get(term, 0.0), float(joined))
        if self._is_of_stop_words(analysed.text):
            weights = weights or self._weights(analysed.text, self._whole)
            weights |= dict.fromkeys(self._join(analysed.text), float(len(split_words(analysed.text))))
        terms = sorted(weights)
        return SparseVector(terms, [weights[term] for term in terms]) if terms else None

    def terms_of(self, word: str, *, stop_words: bool = False) -> Sequence[int]:
        """The terms of one word, pair of characters or identifier of a query; of a stop word if `stop_words` count."""
        word = word if word.isascii() else _readable(word)
        if self.parameters.analysis == PLAIN:
            return self._model.embed_query(word).indices
        models = self._whole if stop_words else self._counting
        each = (model.embed_query(self._fold(word, language)).indices for language, model in models.items())
        return [term for terms in each for term in terms]

    def covers(self, terms: SparseVector | None, text: str) -> bool:
        """True if a document that matches the text has one of the terms: among other words a stop word is none."""
        own = self.query(text)
        return terms is not None and own is not None and not set(terms.indices).isdisjoint(own.indices)

    def _fold(self, text: str, language: str) -> str:
        if language in _GERMAN:
            return fold_umlauts(text)
        if language in _TURKISH:
            text = lower_turkish(text)
        return text if self.parameters.accents else fold_accents(text)

    def _weights(self, text: str, models: Mapping[str, qdrant_edge.Bm25]) -> dict[int, float]:
        folded = ((model, self._fold(text, language)) for language, model in models.items())
        return dict.fromkeys((term for model, each in folded for term in model.embed_query(each).indices), 1.0)

    def _count(self, text: str, language: str, models: Mapping[str, qdrant_edge.Bm25] | None = None) -> Counter[int]:
        """The terms of a text in a language, and how often each is in it."""
        found = (models or self._counting)[language].embed_document(text)
        counts = (round(_COUNTING * weight / (_COUNTING + 1 - weight)) for weight in found.values)
        return Counter(dict(zip(found.indices, counts, strict=True)))


def _config(parameters: Bm25Parameters) -> qdrant_edge.Bm25Config:
    neutral = parameters.language == NO_LANGUAGE
    return qdrant_edge.Bm25Config(
        k=parameters.k,
        b=parameters.b,
        avg_len=parameters.avg_len,
        language=None if neutral else parameters.language,
        stopwords=qdrant_edge.StopwordsSet() if neutral or not parameters.stop_words else None,
        stemmer=qdrant_edge.DisabledStemmer() if neutral else None,
    )


def _readable(text: str) -> str:
    """The text with lone surrogates, which UTF-8 can't hold, as question marks: they separate words."""
    return text.encode(errors="replace").decode()


def _sparse(vector: qdrant_edge.SparseVector) -> SparseVector:
    return SparseVector(vector.indices, vector.values)


def metadata(
    settings: Bm25Settings,
    purposes: Purposes | None = None,
    fields: Mapping[str, float] = DEFAULT_FIELDS,
    model: str | None = None,
) -> dict[str, Any]:
    """A collection's metadata about its analyser and the searched fields, about the documents that share a context and
    those that expire, and about the prompts and the `model` that its texts are embedded with, where an embedder is
    configured.
    """
    prompts = {} if purposes is None else {_PROMPTS: purposes}
    embedder = {} if model is None else {_EMBEDDER: model}
    # An earlier version knows these parameters only.
    newer = {name for name in ("languages", "accents") if getattr(settings, name) == getattr(Bm25Settings(), name)}
    bm25 = {_BM25: settings.model_dump(mode="json", exclude=newer), _ANALYSIS: CURRENT, _FIELDS: dict(fields)}
    return {OURS: {**bm25, _CONTEXTS: _BY_ACCESS, _EXPIRY: EXPIRES_AT, **prompts, **embedder}}


def expires(info: CollectionInfo) -> bool:
    """True if the collection says that its documents expire: in one of an earlier version `expires_at` is a field."""
    ours = info.metadata.get(OURS)
    return isinstance(ours, Mapping) and ours.get(_EXPIRY) == EXPIRES_AT


def has_plain_terms(info: CollectionInfo) -> bool:
    """True if the collection is rankstream's, and was made before identifiers and pairs of characters were terms."""
    ours = info.metadata.get(OURS)
    return isinstance(ours, Mapping) and ours.get(_ANALYSIS, PLAIN) == PLAIN


def other_prompts(purposes: Purposes | None, info: CollectionInfo) -> Purposes | None:
    """The prompts that a collection was made for, if they are known and others than these; None is no embedder."""
    ours = info.metadata.get(OURS)
    noted = ours.get(_PROMPTS) if isinstance(ours, Mapping) else None
    return noted if isinstance(noted, Mapping) and purposes is not None and noted != purposes else None


def mixed_contexts(names: Vectors, info: CollectionInfo) -> bool:
    """True if the collection has contexts that may hold words of documents that fewer sources see."""
    there = names.dense_context in info.vectors or names.sparse_context in info.sparse_vectors
    ours = info.metadata.get(OURS)
    return there and not (isinstance(ours, Mapping) and ours.get(_CONTEXTS) == _BY_ACCESS)


def fields_of(info: CollectionInfo) -> Mapping[str, float] | None:
    """The fields that a collection of rankstream's searches, with their weights; None of another program's."""
    ours = info.metadata.get(OURS)
    if not isinstance(ours, Mapping):
        return None
    fields = ours.get(_FIELDS)
    return fields if isinstance(fields, Mapping) else DEFAULT_FIELDS


class Analysers:
    """The analyser of each collection: the collection's own parameters once they are read, the configured ones before.

    Raises ConfigError for configured parameters that the model refuses.
    """

    def __init__(self, settings: QdrantSettings) -> None:
        self._settings = settings
        self._analysis = PLAIN if settings.of_another_tool else CURRENT
        self._fields = settings.search_fields
        self._others = _model(settings.bm25, self._analysis, self._fields)
        self._models = {
            name: _model(settings.analyser(name), self._analysis, self._fields) for name in settings.physical
        }
        self._warned: set[tuple[str, str]] = set()

    def of(self, collection: str) -> Bm25:
        """The model that makes this collection's terms."""
        return self._models.get(collection, self._others)

    def read(self, collection: str, metadata: Mapping[str, Any] | None) -> None:
        """Take the parameters in a collection's metadata; None: it isn't there, and will be made as configured.

        Without any, a collection keeps the configured parameters; so does one whose parameters can't be used, with a
        warning. Parameters other than the configured ones are used, with a warning.
        """
        configured = self._settings.analyser(collection)
        if metadata is None:
            self._models[collection] = _model(configured, self._analysis, self._fields)
            return
        try:
            own, analysis, fields = _parameters(metadata)
            model = _model(configured if own is None else own, analysis, fields)
        except (ValueError, ConfigError):
            self._warn(collection, "collection has bm25 metadata that cannot be used", "configured parameters")
            self._models[collection] = _model(configured, PLAIN, DEFAULT_FIELDS)
            return
        if own is not None and own != configured:
            self._warn(collection, "collection has other bm25 parameters than configured", "its own parameters")
        if model.name != self.of(collection).name:
            self._models[collection] = model

    def _warn(self, collection: str, event: str, used: str) -> None:
        if (collection, event) not in self._warned:
            self._warned.add((collection, event))
            log.warning(event, collection=collection, used=used)


def _parameters(metadata: Mapping[str, Any]) -> tuple[Bm25Settings | None, int, Mapping[str, float]]:
    """The parameters in a collection's metadata, None without any, its analysis, and the fields that it searches.

    Raises ValueError for others.
    """
    ours = metadata.get(OURS, {})
    if not isinstance(ours, Mapping):
        raise ValueError("no object")
    analysis = ours.get(_ANALYSIS, PLAIN)
    if analysis not in (PLAIN, CURRENT):
        raise ValueError("another analysis")
    fields = ours.get(_FIELDS, DEFAULT_FIELDS)
    if not isinstance(fields, Mapping) or not all(isinstance(weight, int | float) for weight in fields.values()):
        raise ValueError("no fields with weights")
    own = Bm25Settings.model_validate(ours[_BM25], strict=True) if _BM25 in ours else None
    return own, analysis, fields


def _model(settings: Bm25Settings, analysis: int, fields: Mapping[str, float]) -> Bm25:
    # Marks number the fields: metadata may come back in another order than that of the configuration.
    ordered = sorted(fields, key=lambda name: (COLUMNS.index(name) if name in COLUMNS else len(COLUMNS), name))
    weights = tuple((name, float(fields[name])) for name in ordered)
    languages = tuple(settings.languages.items())
    given = settings.k, settings.b, settings.avg_len, settings.language, analysis, weights, languages
    return Bm25(Bm25Parameters(*given, settings.accents == "keep"))
