"""The stage `wishes`: what candidates say of themselves decides whether they are what the query's words wish.

A candidate fits a wish, fails it, or says nothing of it. Of a limit the field that suits it best decides, and else the
text. Of an exclusion the words do: a document that names them without a negation fails.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any, Final, NamedTuple

from operators.ranking.candidate import Candidate, best_first
from operators.ranking.coverage import share_of_words
from operators.ranking.properties import (
    INDEXED_AT,
    STAMPS,
    Document,
    Said,
    Subject,
    choose_fields,
    order_value,
    satisfies,
    values_at,
    words_in,
)
from operators.ranking.run import Run
from operators.text.measures import Lexeme, is_alike, names, phrase_at, stands_in_run, stems_of, tokenize
from operators.text.phrases import KINDS, LACKING, OMITTED, WORDS, simplify
from schemas.document import COLUMNS
from schemas.query import Exclusion, Limit, Order
from schemas.recipes.stages import Wishes

FAILS: Final = 1.0
FITS: Final = 0.0
UNKNOWN: Final = 0.5
"""A document that says nothing of a wish is between those that fit and those that fail."""

_SIMILAR: Final = 0.5
"""Share of the best candidate's score from which on others are about as relevant, where words don't tell."""

_OPPOSITE: Final = ("un", "non", "无", "無", "免", "零", "不")
"""Beginnings by which a word means its opposite, or that it is not there."""

_NO_PROPERTIES: Final = frozenset({*COLUMNS, *STAMPS})
"""Fields whose values are texts and times, and name no property such as a brand."""

_LEVEL: Final = re.compile(r"[>/|,;]")
"""Signs between the levels of a category."""

_NOTHING: Final = re.compile(r"(?!)")
_ROUNDING: Final = 1 - 1e-9

_DENYING: Final = frozenset({"not", "nicht", "pas"})

_NAME: Final = 2
"""Words at most of a field's name that an exclusion can mean."""

_NONE: Final = WORDS["negating"] | {"0", "false", "none", "nein", "nichts", "keins", "rien", "n"}

_REACH: Final = 4
"""Words of a text at most from a negation to what it negates."""


class _Verdict(NamedTuple):
    """The share of a wish that a candidate fails, and the value by which."""

    fails: float
    value: Said | None = None


class _Judged(NamedTuple):
    """A wish with the field that was read, and each candidate's verdict."""

    wish: Limit | Exclusion
    verdicts: Sequence[_Verdict]

    def explain(self, at: int) -> dict[str, Any]:
        verdict = self.verdicts[at]
        field = self.wish.field if isinstance(self.wish, Limit) else None
        return {"words": self.wish.words, "field": field, "value": verdict.value, "fails": verdict.fails}


class _Ordered(NamedTuple):
    """An order with the field that was read, the score that it begins at, and each candidate's share and value."""

    wish: Order
    best: float
    shares: Sequence[float | None]
    values: Sequence[float | None]

    def explain(self, at: int) -> dict[str, Any] | None:
        share = self.shares[at]
        return None if share is None else {"value": self.values[at], "best": self.best, "share": share}


def grant(candidates: list[Candidate], stage: Wishes, run: Run) -> list[Candidate]:
    """Subtract weight * the wishes that a candidate fails; order those about as relevant as the best by the query's
    wish.

    Fits is 0, fails 1, and nothing said ½. A part of the excluded words that a document names is their share, ½ at
    least. With `strict` what fails is left out. Of the candidates that are about as relevant as the best, those with
    the order's field get the greatest score + weight * the share of these that are behind it in the order. Source: own.
    """
    wishes = run.facts.understood
    if not wishes or not candidates:
        return candidates
    documents = [Document(run.facts.visible(candidate.payload)) for candidate in candidates]
    judged = [_judge(each, documents, run) for each in wishes if not isinstance(each, Order)]
    fails = [math.fsum(each.verdicts[at].fails for each in judged) for at in range(len(candidates))]
    failed = {
        candidate.id
        for at, candidate in enumerate(candidates)
        if any(each.verdicts[at].fails == FAILS for each in judged)
    }
    scores = [candidate.score - stage.weight * each for candidate, each in zip(candidates, fails, strict=True)]
    by_id = {candidate.id: score for candidate, score in zip(candidates, scores, strict=True)}
    orders = [each for each in wishes if isinstance(each, Order)]
    ordered = None
    if orders:
        similar = _find_similar(by_id, failed, run)
        kind = _find_kind({id_: each for id_, each in zip(by_id, documents, strict=True) if id_ in similar}, run)
        ordered = _order(orders[0], by_id, documents, kind or similar, run)
    if ordered is not None:
        both = zip(scores, ordered.shares, strict=True)
        scores = [score if share is None else ordered.best + stage.weight * share for score, share in both]
    run.understood = (*(each.wish for each in judged), *([ordered.wish] if ordered else ()), *orders[1:])
    columns: dict[str, list[Any]] = {"fails": fails}
    if run.explanations is not None:
        columns["wishes"] = [[each.explain(at) for each in judged] for at in range(len(candidates))]
        columns["order"] = [ordered.explain(at) if ordered else None for at in range(len(candidates))]
    run.rescore(stage, candidates, scores, columns)
    return best_first([each for each in candidates if not stage.strict or each.id not in failed])


def _judge(wish: Limit | Exclusion, documents: Sequence[Document], run: Run) -> _Judged:
    if isinstance(wish, Exclusion):
        return _Judged(wish, _exclude_all([each for each in _alternatives(wish.without) if each], documents))
    text, own_name = run.facts.text, run.facts.wording.own_name
    subject = Subject.of(wish, text, own_name)
    fields, said = _read(wish, subject, documents)
    is_bare = "date" in subject.about if subject.dated else bool(subject.nouns) and subject.nouns == subject.about
    if is_bare and not any(said):
        # A number that no word calls a year, or whose noun nobody has, may be an amount, if that divides them.
        amount = wish.model_copy(update={"unit": None} if subject.dated else {"about": []})
        amounts, values = _read(amount, Subject.of(amount, text, own_name), documents)
        if len({satisfies(amount, value) for each in values for value in each}) > 1:
            wish, fields, said = amount, amounts, values
        elif subject.dated:
            fields = [INDEXED_AT]
            said = [values_at(subject, each, fields) for each in documents]
    if subject.exact and not any(said):
        # No field is called so, and the search has not looked for these words: in any field they count as words do.
        said = [[text for text in each.texts if satisfies(wish, text)] for each in documents]
    # "Mortgage over 50 years" may be the name of what is wanted: then the words count as words do.
    phrase = re.compile(rf"(?<!\w){re.escape(simplify(wish.words))}(?!\w)") if wish.words else _NOTHING
    verdicts = [_limit(wish, values) for values in said]
    agree = [verdict.fails != FITS and each.says(phrase) for verdict, each in zip(verdicts, documents, strict=True)]
    # Where nobody says anything, nothing changes.
    silent = not any(said) and not any(agree)
    verdicts = [_FITS if silent or each else verdict for verdict, each in zip(verdicts, agree, strict=True)]
    return _Judged(wish.model_copy(update={"field": fields[0] if fields and any(said) else wish.field}), verdicts)


def _read(wish: Limit, subject: Subject, documents: Sequence[Document]) -> tuple[list[str], list[list[Said]]]:
    """The fields that a limit means, and what each document says in them, or else in its texts."""
    # A field that came with the wish goes first, so that one that is sent back as it was decides as it did.
    fields = [*([wish.field] if wish.field is not None else []), *choose_fields(subject, documents)]
    said = [
        values_at(subject, each, fields)
        or [value for tokens in each.around(subject.pattern) for value in subject.in_text(tokens)]
        for each in documents
    ]
    return fields, said


def _alternatives(without: str) -> Iterator[list[str]]:
    """The folded words of each thing that an exclusion names: "nuts or milk" are two."""
    words: list[str] = []
    for token in tokenize(without):
        if token.text in WORDS["also"]:
            yield words
            words = []
        elif token.text[:1].isalnum() and token.text not in WORDS["determiner"]:
            words.append(token.text)
    yield words


def _exclude_all(things: Sequence[Sequence[str]], documents: Sequence[Document]) -> Sequence[_Verdict]:
    """The verdicts by the thing of which a document names most; of another brand than the excluded one, it fits."""
    each_thing = ((_exclude(words, each) for words in things) for each in documents)
    verdicts = [max(each, key=lambda verdict: verdict.fails, default=_SAYS_NOTHING) for each in each_thing]
    fields = _fields_with({" ".join(words) for words in things}, documents)
    return [
        _FITS if verdict is _SAYS_NOTHING and not fields.isdisjoint(each.fields) else verdict
        for verdict, each in zip(verdicts, documents, strict=True)
    ]


def _fields_with(values: Set[str], documents: Sequence[Document]) -> frozenset[str]:
    """The fields, but texts, that are one of these values in a document."""
    return frozenset(
        path
        for document in documents
        for path, held in document.fields.items()
        if path not in _NO_PROPERTIES
        and any(isinstance(each.value, str) and simplify(each.value) in values for each in held)
    )


def _limit(limit: Limit, said: Sequence[Said]) -> _Verdict:
    """The verdict by the first value that fits, or else the first."""
    if not said:
        return _SAYS_NOTHING
    fitting = next((each for each in said if satisfies(limit, each)), None)
    return _Verdict(FAILS, said[0]) if fitting is None else _Verdict(FITS, fitting)


def _exclude(words: Sequence[str], document: Document) -> _Verdict:
    named: dict[str, str] = {}
    for path, held in document.fields.items():
        if (called := _find_called(path, tuple(words))) is not None:
            word, without = called
            if without is not all(_is_nothing(each.value) for each in held):
                return _Verdict(FITS, path)
            named.setdefault(word, path)
    for tokens in document.around(_pattern_of(tuple(words))):
        for at, token in enumerate(tokens):
            for word in words:
                named_here = names(token.text, word)
                lacks = word in LACKING.get(token.text, ()) or _without(word).fullmatch(token.text) is not None
                if lacks or (named_here and _is_negated(tokens, at)):
                    return _Verdict(FITS, token.text)
                if named_here or _is_kind(tokens, at, word):
                    named.setdefault(word, token.text)
    share = len(named) / len(words)
    return _Verdict(max(UNKNOWN, share), " ".join(named.values())) if named else _SAYS_NOTHING


@lru_cache(4096)
def _find_called(path: str, words: tuple[str, ...]) -> tuple[str, bool] | None:
    """The word by which a field is called, such as `pets_allowed` or `sugar_g`; True if it says that there is none, as
    `sugar_free` does.
    """
    name = words_in(path.rpartition(".")[2])
    word = next((each for each in words if any(is_alike(called, each) for called in name)), None)
    is_whole = len(name) <= _NAME and path not in _NO_PROPERTIES
    return (word, not (WORDS["negating"] | WORDS["free"]).isdisjoint(name)) if word is not None and is_whole else None


def _is_nothing(value: object) -> bool:
    """True for the value of a field that says that there is none: 0, false, "no"."""
    said = simplify(value).split() if isinstance(value, str) else []
    return said[0] in _NONE if said else not value


_FITS: Final = _Verdict(FITS)
_SAYS_NOTHING: Final = _Verdict(UNKNOWN)


@lru_cache(256)
def _kinds_of(word: str) -> frozenset[str]:
    """The stems of the kinds of a thing: beef and ham are meat."""
    return frozenset().union(*(stems_of(kind) for kind in KINDS.get(word, ())))


def _is_kind(tokens: Sequence[Lexeme], at: int, word: str) -> bool:
    """True for a kind of the thing: not for milk of almonds, and "no beef" says nothing of other meat."""
    if stems_of(tokens[at].text).isdisjoint(_kinds_of(word)) or _is_negated(tokens, at):
        return False
    return not at or tokens[at - 1].text not in WORDS["plant"]


@lru_cache(256)
def _pattern_of(words: tuple[str, ...]) -> re.Pattern[str]:
    """The stems of words and their kinds, and what lacks them: a text without any of them names none."""
    lacking = {lacks for lacks, things in LACKING.items() if not things.isdisjoint(words)}
    stems = {stem for word in words for stem in stems_of(word) | _kinds_of(word) if stem}
    return re.compile("|".join(sorted(map(re.escape, stems | lacking))))


@lru_cache(256)
def _without(word: str) -> re.Pattern[str]:
    """The words that say that something is without the word: `zuckerfrei`, `kabellos`, `uncoated`, `无糖`."""
    joined = {stem + joint for stem in stems_of(word) for joint in ("", *WORDS["joint"])}
    forms = {*(each + end for each in joined for end in WORDS["free"]), *(each + word for each in _OPPOSITE)}
    around = ".*" if stands_in_run(word) else ""
    return re.compile(f"{around}(?:{'|'.join(map(re.escape, sorted(forms)))}){around}")


def _is_negated(tokens: Sequence[Lexeme], at: int) -> bool:
    """True if the text says that it is without the word at `at`: "no added sugar", "sugar-free", "is not needed"."""
    if phrase_at(tokens, at + 1, OMITTED) is not None:
        return True
    first, *rest = [*(each.text for each in tokens[at + 1 : at + 3] if each.text != "-"), ""]
    # "Sugar-free", "Deutsch nicht erforderlich", "sugar is not added"; and "parking is free" has parking.
    if first in WORDS["free"] | _DENYING or (first in WORDS["auxiliary"] and not _DENYING.isdisjoint(rest)):
        return True
    for step in range(1, min(_REACH, at) + 1):
        before = tokens[at - step].text
        if before in WORDS["asserting"] or (not before[0].isalnum() and before != "-" and before != "'"):
            return False
        if before in WORDS["negating"]:
            # "free of sugar" is, and "free shipping" isn't.
            return before not in WORDS["free"] or tokens[at - step + 1].text in WORDS["source"]
    return False


def _order(
    wish: Order, scores: Mapping[str, float], documents: Sequence[Document], similar: Set[str], run: Run
) -> _Ordered:
    """The shares of the `similar` candidates that have the order's field."""
    subject = Subject.of(wish, run.facts.text, run.facts.wording.own_name)
    ordered = [document for id_, document in zip(scores, documents, strict=True) if id_ in similar]
    fields = [wish.field] if wish.field is not None else choose_fields(subject, ordered)
    field = next(iter(fields), INDEXED_AT if subject.dated else None)
    values = [
        order_value(subject, document, field) if field is not None and id_ in similar else None
        for id_, document in zip(scores, documents, strict=True)
    ]
    sign = -1 if wish.direction == "asc" else 1
    known = sorted(sign * each for each in values if each is not None)
    shares = [None if each is None else bisect_left(known, sign * each) / max(len(known) - 1, 1) for each in values]
    read = wish.model_copy(update={"field": field if known else wish.field})
    return _Ordered(read, max(scores.values()), shares, values)


def _find_kind(documents: Mapping[str, Document], run: Run) -> set[str]:
    """The documents whose fields, such as `category`, name most of the query by whole values: a strap is no guitar."""
    said = {stem: token.text for token in tokenize(run.facts.text or "") for stem in stems_of(token.text)}
    named: dict[str, set[str]] = {}
    for id_, document in documents.items():
        for path, held in document.fields.items():
            values = (each.value for each in held if path not in _NO_PROPERTIES and isinstance(each.value, str))
            for words in (simplify(part).split() for value in values for part in _LEVEL.split(value)):
                found = [said.keys() & stems_of(word) for word in words]
                if all(found):
                    named.setdefault(id_, set()).update(said[stem] for each in found for stem in each)
    most = max(map(len, named.values()), default=0)
    return {id_ for id_, words in named.items() if len(words) == most > 0}


def _find_similar(scores: Mapping[str, float], failed: Set[str], run: Run) -> set[str]:
    """The candidates that are about as relevant as the best: they have as much of the query's words as it, or, where
    nothing is known of words or it has none, half of its score or more. None of them fails a wish.
    """
    left = {id_: score for id_, score in scores.items() if id_ not in failed} or scores
    best = max(left, key=left.__getitem__)
    covered = share_of_words(run.words.units)
    if least := covered.get(best, 0.0):
        return {id_ for id_ in left if covered.get(id_, 0.0) >= least * _ROUNDING}
    bound = left[best] * _SIMILAR if left[best] > 0 else left[best]
    return {id_ for id_, score in left.items() if score >= bound}
