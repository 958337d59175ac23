"""Analysers: texts as sparse vectors of BM25 terms.

A collection's terms, in documents and in queries, are made with the parameters noted at its creation. So is the rule by
which its contexts are made. Collections of other programs, and those of versions before 0.2.0, have the terms that a
Qdrant server makes with its `qdrant/bm25`. The others have these, too, of texts in scripts with spaces; a document's
identifiers add terms, and nothing to its length.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final

import qdrant_edge

from operators.ranking.content import join_fields
from operators.text.analysis import Token, analyse, join_neighbours
from operators.text.folding import fold_accents, fold_umlauts, is_size, lower_turkish
from operators.text.passages import Matcher
from operators.text.phrases import read_rows
from operators.text.terms import QueryWord, SparseVector, query_vector, trigrams_of_document
from operators.text.words import split_words
from schemas.document import COLUMNS, LANG
from schemas.errors import ConfigError
from schemas.settings.qdrant import DEFAULT_FIELDS, Bm25Settings, language_tag

PLAIN: Final = 1
CURRENT: Final = 3
"""Versions of the analysis: words as Qdrant has them; and those of `operators.text.analysis`. A collection of version 2
has most of the same terms: it has no forms but those with a digit, and the tails of decimals are words there."""

_SPELLING: Final = str.maketrans("./+#", "\u1427\u2cc7\u1429\u2d4c")
"""Letters that look like the signs within words: the model divides words at signs."""

_NUMBERED: Final = re.compile(r"\d[^\W\d_]+(?!\w)")
_UNSTEMMED: Final = "\u1428"
"""A letter put behind words that end in a digit and letters: they are identifiers, and have no stem (`TS-100-S`)."""

_COUNTING: Final = 1000.0
"""BM25's k by which a term's weight tells its count, to some ten thousand."""

_SIZE: Final = 0.5
"""The weight of a query's unit, and of a number with its unit, in the keyword leg."""

_ENGLISH: Final = Bm25Settings()
_GERMAN: Final = frozenset({"german", "de"})
_TURKISH: Final = frozenset({"turkish", "tr"})

_THINGS: Final = """
english en: bat bin bare care cat come con die dog door end era eras face fan fins gain hat hay ill man men mine mint
 mod mode moral multi name one par pet pic pod pot pour sale sap sea seas sense sine son sons sub take tan till ton tons
 van var vase want war
german de: los mais most not ton
french fr: but col fan if mode or pot
spanish es: mes par sur
"""
"""Language -> words that name something in it, and are stop words of other languages."""

_NAMING: Final = {each: frozenset(words.split()) for head, words in read_rows(_THINGS) for each in head.split()}


class Bm25:
    """The analyser and the weights of one collection; raises ConfigError for parameters that the model refuses.

    `analysis` is the version of the analysis. `fields`, the `columns`, are searched, each with its weight. `name`
    distinguishes the analyser from every other.
    """

    def __init__(
        self, settings: Bm25Settings = _ENGLISH, analysis: int = PLAIN, fields: Mapping[str, float] = DEFAULT_FIELDS
    ) -> None:
        self.settings = settings
        self.analysis = analysis
        # Marks number the fields: metadata may come back in another order than that of the configuration.
        ordered = sorted(fields, key=lambda name: (COLUMNS.index(name) if name in COLUMNS else len(COLUMNS), name))
        self.fields = {name: float(fields[name]) for name in ordered}
        self.columns = tuple(ordered)
        self.name = repr((settings, analysis, self.fields))
        # In the order of their names: the terms of a query are the same in each process.
        languages = sorted({settings.language, *settings.languages.values()})
        counting = settings.model_copy(update={"k": _COUNTING, "b": 0.0})
        try:
            self._model = _model(settings, settings.language)
            self._counting = {language: _model(counting, language) for language in languages}
            self._whole = {language: _model(counting, language, stop_words=False) for language in languages}
        except ValueError as error:
            raise ConfigError(f"bm25: {error}") from error
        # Queries share most of their words.
        self.terms_of = lru_cache(8192)(self._make_terms)
        self._stopped_in = lru_cache(8192)(self._find_stopped)
        self._is_mixed = analysis != PLAIN and len(languages) > 1

    def document(self, text: str) -> SparseVector:
        """Return an indexed text's terms, weighted by their frequency in it; without terms it is empty."""
        if self.analysis == PLAIN:
            found = self._model.embed_document(_readable(text))
            return SparseVector(found.indices, found.values)
        return self._weigh([(text, 1.0)], self.settings.language)[0]

    def payload(self, payload: Mapping[str, Any]) -> tuple[SparseVector, list[Collection[int]]]:
        """Return the terms of a document's searched fields, weighted by BM25F, and those of each field.

        A field of weight 3 counts as if it stood there three times; a term's frequency is saturated over all fields.
        Source: Robertson, Zaragoza and Taylor 2004, Simple BM25 extension to multiple weighted fields.
        """
        if self.analysis == PLAIN:
            each = [self.document(join_fields(payload, [column])).indices for column in COLUMNS]
            return self.document(join_fields(payload, COLUMNS)), list(each)
        texts = [(join_fields(payload, [field]), weight) for field, weight in self.fields.items()]
        return self._weigh(texts, self._language(payload.get(LANG)))

    def trigrams(self, payload: Mapping[str, Any]) -> SparseVector:
        texts = ((_readable(join_fields(payload, [field])), weight) for field, weight in self.fields.items())
        return trigrams_of_document(list(texts))

    def _language(self, lang: object) -> str:
        """The language of a document: `de-AT` is that of `de` unless it has its own."""
        tag = language_tag(lang) if isinstance(lang, str) else ""
        languages = self.settings.languages
        return languages.get(tag) or languages.get(tag.partition("-")[0]) or self.settings.language

    def words(self, text: str, lang: str | None = None) -> Sequence[QueryWord]:
        """Return the words of a query as `read` has them."""
        return self.read(text, lang)[0]

    def read(self, text: str, lang: str | None = None) -> tuple[Sequence[QueryWord], Callable[[], Matcher]]:
        """Return the words and forms of a query that have terms, and a maker of what finds its words in texts.

        Stop words have terms only if nothing else has. `lang` is the query's own; None: its stop words tell it.
        """
        text, stop_words = _readable(text), partial(self.terms_of, stop_words=True)
        if self.analysis == PLAIN:
            plain = ((word, self._model.embed_query(word).indices) for word in split_words(text))
            known = [QueryWord(word.lower(), terms, place, 1) for place, (word, terms) in enumerate(plain) if terms]
            return known, lambda: Matcher(analyse(text, query=True), self.terms_of, stop_words)
        tokens = analyse(text, query=True)
        terms_of = self._terms_in(tokens, lang) if self._is_mixed else self.terms_of
        words = [each for each in tokens if each.is_word]
        forms = [each for each in tokens if not each.is_word]
        if not _TURKISH.isdisjoint(self._counting):
            forms += (each._replace(is_word=False) for each in _in_turkish(text, words) if each not in words)
        found = [terms_of(each.text) for each in words]
        neighbours = list(join_neighbours(words, [bool(terms) for terms in found]))
        if not any(found):
            found = [stop_words(each.text) for each in words]
        found += [stop_words(each.text) for each in (*forms, *neighbours)]
        # A size is one thing, and told by its number: many texts have its unit.
        units = {(each.first + 1, each.atoms - 1) for each in forms if is_size(each.text)}
        weights = [_SIZE if (each.first, each.atoms) in units else _weight(each) for each in (*words, *forms)]
        weights += [0.0] * len(neighbours)
        read = zip((*words, *forms, *neighbours), found, weights, strict=True)
        known = [QueryWord(each.text, terms, each.first, each.atoms, weight) for each, terms, weight in read if terms]
        spelled = " ".join(each.text for each in words)
        models = self._counting.items()
        if words and any(not model.embed_query(self._fold(spelled, language)).indices for language, model in models):
            atoms = words[-1].first + words[-1].atoms
            known.append(QueryWord(f'"{spelled}"', self._join(words), 0, atoms, float(atoms)))
        return known, partial(Matcher, tokens, terms_of, stop_words)

    def _join(self, words: Iterable[Token]) -> Sequence[int]:
        """The term of a whole text of stop words in any order; it begins like no word, so that no other text has it."""
        spelled = "".join(sorted(each.text for each in words))
        return self._model.embed_query(f"stopwords{fold_accents(spelled)}").indices

    def _weigh(self, texts: Sequence[tuple[str, float]], language: str) -> tuple[SparseVector, list[Collection[int]]]:
        counts: dict[int, float] = defaultdict(float)
        length = 0.0
        by_field: list[Collection[int]] = []
        for text, weight in texts:
            tokens = analyse(text := _readable(text), query=False)
            if language in _TURKISH:
                tokens = _in_turkish(text, tokens)
            words = self._fold(" ".join(token.text for token in tokens if token.is_word), language)
            found = self._count(words, language, self._counting)
            length += weight * found.total()
            # Stop words don't make a document longer, and no document is marked with them.
            for term, count in (self._count(words, language, self._whole) - found).items():
                counts[term] += weight * count
            forms = self._fold(" ".join(token.text for token in tokens if not token.is_word), language)
            for term, count in self._count(forms, language, self._whole).items() if forms else ():
                # A form that is a word of the text as well says nothing more.
                found.setdefault(term, count)
            if words and not found:
                # So a title of stop words is told from texts that are full of them.
                found.update(self._join(each for each in tokens if each.is_word))
            by_field.append(found.keys())
            for term, count in found.items():
                counts[term] += weight * count
        k, b = self.settings.k, self.settings.b
        norm = k * (1 - b + b * length / self.settings.avg_len)
        weighed = sorted((term, count * (k + 1) / (count + norm)) for term, count in counts.items())
        return SparseVector([term for term, _ in weighed], [weight for _, weight in weighed]), by_field

    def query(self, text: str, lang: str | None = None) -> SparseVector | None:
        """Return a query's terms with their weights, or None if it has none; its `lang` is as that of `words`."""
        return query_vector(self.words(text, lang))

    def _terms_in(self, tokens: Iterable[Token], lang: str | None) -> Callable[[str], Sequence[int]]:
        """The terms of a word in a query, none of a stop word of the query's languages: those of which it has the most
        stop words, or the collection's own.
        """
        if lang is None:
            counts = Counter(language for each in tokens if each.is_word for language in self._stopped_in(each.text))
            most = max(counts.values(), default=0)
            spoken = frozenset(language for language, count in counts.items() if count == most)
        else:
            spoken = frozenset({self._language(lang)})
        return partial(self.terms_of, spoken=spoken or frozenset({self.settings.language}))

    def _find_stopped(self, word: str) -> Sequence[str]:
        """The languages that a word tells as their stop word; none if it names something in another one."""
        if any(word in _NAMING.get(language, ()) for language in self._counting):
            return ()
        models = self._counting.items()
        return [language for language, model in models if not model.embed_query(self._fold(word, language)).indices]

    def _make_terms(
        self, word: str, *, stop_words: bool = False, spoken: Collection[str] = frozenset()
    ) -> Sequence[int]:
        """The terms of one word or form, in each language; of a stop word of a `spoken` one if `stop_words` count."""
        if self.analysis == PLAIN:
            return self._model.embed_query(_readable(word)).indices
        models = self._whole if stop_words else self._counting
        each = {language: model.embed_query(self._fold(word, language)).indices for language, model in models.items()}
        if not all(each[language] for language in spoken):
            return []
        return list(dict.fromkeys(term for terms in each.values() for term in terms))

    def covers(self, terms: SparseVector | None, text: str) -> bool:
        """True if a document that matches the text has one of the terms: among other words a stop word is none."""
        own = self.query(text)
        return terms is not None and own is not None and not set(terms.indices).isdisjoint(own.indices)

    def _fold(self, text: str, language: str) -> str:
        text = _NUMBERED.sub(rf"\g<0>{_UNSTEMMED}", text.translate(_SPELLING))
        if language in _GERMAN:
            return fold_umlauts(text)
        return text if self.settings.accents == "keep" else fold_accents(text)

    def _count(self, text: str, language: str, models: Mapping[str, qdrant_edge.Bm25]) -> Counter[int]:
        """The terms of a text in a language, and how often each is in it."""
        found = models[language].embed_document(text)
        counts = (round(_COUNTING * weight / (_COUNTING + 1 - weight)) for weight in found.values)
        return Counter(dict(zip(found.indices, counts, strict=True)))


def _in_turkish(text: str, tokens: Iterable[Token]) -> list[Token]:
    """The tokens of a text, those with the letter I as Turkish writes them in small letters."""
    written = ((each, text[each.start : each.end]) for each in tokens)
    return [
        each._replace(text=lower_turkish(word)) if word.isalpha() and not {*"Iİ"}.isdisjoint(word) else each
        for each, word in written
    ]


def _weight(token: Token) -> float:
    """The weight of a query's word or form in the keyword leg: an identifier says as much as all of its atoms."""
    if is_size(token.text):
        return _SIZE
    return float(token.atoms) if any(map(str.isdecimal, token.text)) else 1.0


def _model(settings: Bm25Settings, language: str, *, stop_words: bool = True) -> qdrant_edge.Bm25:
    """The model of a language; without `stop_words` these are terms as others are."""
    neutral = language == "none"
    return qdrant_edge.Bm25(
        qdrant_edge.Bm25Config(
            k=settings.k,
            b=settings.b,
            avg_len=settings.avg_len,
            language=None if neutral else language,
            stopwords=qdrant_edge.StopwordsSet() if neutral or not stop_words else None,
            stemmer=qdrant_edge.DisabledStemmer() if neutral else None,
        )
    )


def _readable(text: str) -> str:
    """The text with lone surrogates, which UTF-8 can't hold, as question marks: they separate words."""
    return text.encode(errors="replace").decode()
