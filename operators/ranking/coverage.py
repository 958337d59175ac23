"""Coverage: which words of a query a document has, and how much of the query they are.

Indexing keeps a mark of each of a document's terms, with the fields that have it, so that ranking reads no texts. A
mark has 24 of a term's 32 bits: a document of 150 terms seems to have a word that it lacks once in 100,000 times.
"""

import base64
import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from itertools import accumulate, chain
from types import MappingProxyType
from typing import Final, TypeGuard

import numpy as np
from numpy.typing import NDArray

from operators.ranking.candidate import Candidate, Leg, Payload, best_first, union
from operators.ranking.run import Matches, Run, Shares
from operators.text.words import is_spelt
from schemas.document import MARKS
from schemas.recipes.stages import Coverage
from schemas.result import FUZZY

_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_TERM: Final = 4
_SIZE: Final = _TERM + 1
_FIELDS: Final = 6
"""Letters of a mark: those of the term, and one with a bit for each field; the last bit is that of all further ones."""

_IN_FIRST: Final = np.array([_LETTERS.find(chr(letter)) % 2 == 1 and chr(letter) in _LETTERS for letter in range(128)])
"""By the code of a mark's last letter: does it have the bit of the first field?"""

_IDENTIFIER: Final = 4
"""Characters of the shortest word with a digit that is like an identifier: `10` and `5x6` are sizes."""

NEAR: Final = 0.45
"""Score in the leg fuzzy from which a document has words like those of the query; the score is like a cosine."""

_DOUBLE: Final = 2.0
_PART: Final = 0.25
"""Factors for the weight of a word that is like an identifier, and for what any other word gives of its own."""

_AGAIN: Final = 0.4
"""Factor for the share of such another word behind a model: the order that the model's scores join has it already."""

_FEW_MARKS: Final = 4
"""Marks from which on it costs less to look for all at once."""

_FEW: Final = 0.1
"""Share of the candidates that have a rare word, at most."""


def marks(fields: Sequence[Iterable[int]]) -> str:
    """The marks of a document's terms; `fields` has the terms of each field, in the order of the fields."""
    found: dict[int, int] = {}
    for number, terms in enumerate(fields):
        for term in terms:
            found[term] = found.get(term, 0) | 1 << min(number, _FIELDS - 1)
    return "".join(_mark(term) + _LETTERS[bits] for term, bits in found.items())


def are_marks(value: object) -> TypeGuard[str]:
    """True if a payload's value has the form of at least one mark."""
    return isinstance(value, str) and bool(value) and not len(value) % _SIZE and value.isascii()


def read_marks(marked: str) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """A number for each term of some marks, and which of the terms the first field has."""
    rows = np.frombuffer(marked.encode("ascii"), np.uint8).reshape(-1, _SIZE)
    return rows[:, :_TERM].copy().view("<u4").ravel(), _IN_FIRST[rows[:, _TERM]]


def find_matches(
    words: Mapping[str, Iterable[int]],
    payloads: Mapping[str, Payload],
    fields: Sequence[str],
    *,
    identifiers: Mapping[str, Iterable[int]] = MappingProxyType({}),
) -> Matches | None:
    """Which candidates have which words: `words` has the terms of each, `payloads` those of the candidates by id.

    `identifiers` are ways to join words: those that no candidate has are no words of the query. None where a candidate
    has no marks: nothing is known of its words.
    """
    marked = [each for payload in payloads.values() if isinstance(each := payload.get(MARKS), str)]
    if len(marked) < len(payloads):
        return None
    ids, ends, joined = list(payloads), list(accumulate(map(len, marked))), "".join(marked)
    read = {word: [_mark(term) for term in terms] for word, terms in (*words.items(), *identifiers.items())}
    places = _find(joined, set(chain.from_iterable(read.values())))
    matches: dict[str, Mapping[str, Sequence[str]]] = {}
    for word, its_marks in read.items():
        found: dict[str, int] = {}
        for mark in its_marks:
            for at in places.get(mark, ()):
                bits = _LETTERS.index(joined[at + _TERM])
                id_ = ids[bisect_right(ends, at)]
                found[id_] = found.get(id_, 0) | bits
        if found or word in words:
            matches[word] = {id_: _fields_of(bits, tuple(fields)) for id_, bits in found.items()}
    return matches


def narrow(matches: Matches, ids: Collection[str], words: Collection[str]) -> Matches:
    """The matches of these candidates alone, as if there had been no others; `words` are those of the query."""
    of_them = {word: {id_: fields for id_, fields in found.items() if id_ in ids} for word, found in matches.items()}
    return {word: found for word, found in of_them.items() if found or word in words}


def rarity(documents: int, frequency: int) -> float:
    """BM25's ln(1 + (N - df + 0.5) / (df + 0.5)), always positive. Source: the IDF of BM25 in Qdrant."""
    # Documents written between two counts are in one of them only.
    frequency = min(frequency, documents)
    return math.log1p((documents - frequency + 0.5) / (frequency + 0.5))


def find_shares(matches: Matches, candidates: Iterable[Candidate]) -> Shares:
    """The share that each word gives, by how few of the candidates have it, and by how like an identifier it is.

    A word weighs its rarity, and twice that if it has a digit and four characters or more. Its share is its weight /
    all weights; of any other word than these a quarter of that, times (its rarity / that of a word of one candidate)².
    A word that nobody has takes nothing from the order of the others. Source: own.
    """
    there = {candidate.id for candidate in candidates}
    counts = {word: len(there.intersection(found)) for word, found in matches.items()}
    rarities = {word: rarity(len(there), count) for word, count in counts.items()}
    weights = {word: each * (_DOUBLE if _identifies(word) else 1.0) for word, each in rarities.items()}
    total, greatest = math.fsum(weights.values()), rarity(len(there), 1)
    shares = {
        word: weight / total * (1.0 if _identifies(word) else _PART * min(1.0, rarities[word] / greatest) ** 2)
        for word, weight in weights.items()
    }
    few = max(1.0, _FEW * len(there))
    rare = frozenset(word for word, count in counts.items() if 0 < count <= few and _identifies(word))
    return Shares(shares, {word: weight / total for word, weight in weights.items()}, matches, rare)


def find_missing(ids: Set[str], matches: Matches | None) -> float:
    """The share of a query that is words which none of these candidates has, each word by its rarity.

    Words without a digit and of three letters or more count; 0 where nothing is known of the candidates' words.
    Source: own.
    """
    if not matches:
        return 0.0
    counts = {word: len(ids & found.keys()) for word, found in matches.items()}
    weights = {word: rarity(len(ids), count) for word, count in counts.items()}
    missing = math.fsum(weights[word] for word, count in counts.items() if not count and is_spelt(word))
    return missing / math.fsum(weights.values()) if missing else 0.0


def find_misspelt(legs: Sequence[Leg], matches: Matches | None) -> float:
    """The share of a query that is words which no candidate of these legs has.

    0 where the leg fuzzy found nothing of a score of NEAR, so nothing that is like the query. Source: own.
    """
    near = any(leg.name == FUZZY and leg.scores and leg.scores[0] >= NEAR for leg in legs)
    return find_missing(union(legs).keys(), matches) if near else 0.0


def coverage(candidates: list[Candidate], stage: Coverage, run: Run) -> list[Candidate]:
    """Add weight * the share of the query that a candidate has; behind a model once more, words unlike identifiers by
    0.4 of their share.

    A candidate without any rare word gets no more than the least that one with all of them has, and stands behind it:
    a word is rare that has a digit and four characters or more, and that at most a tenth of the candidates have. Where
    nothing is known of the candidates' words nothing changes. Source: own.
    """
    matches = run.facts.matches
    if not matches or not candidates or (run.shares is not None and (run.model is None or run.model.selects)):
        return candidates
    before = [candidate.score for candidate in candidates]
    if run.shares is None:
        shares = run.shares = find_shares(matches, candidates)
    else:
        again = {word: share if _identifies(word) else _AGAIN * share for word, share in run.shares.words.items()}
        shares = run.shares._replace(words=again)
    summed = shares.sum_of(shares.words)
    covered = [summed.get(candidate.id, 0.0) for candidate in candidates]
    for candidate, share in zip(candidates, covered, strict=True):
        candidate.score += stage.weight * share
    most, ranked = _bound(candidates, [matches[word] for word in shares.rare])
    if run.explanations is not None:
        said = [
            {
                word: {"share": share, "fields": list(matches[word][each.id])}
                for word, share in shares.of(each.id).items()
            }
            for each in candidates
        ]
        bounds = [most.get(candidate.id) for candidate in candidates]
        run.explain(stage, candidates, before, {"words": said, "coverage": covered, "most": bounds})
    return best_first(ranked)


def _bound(
    candidates: list[Candidate], rare: Sequence[Mapping[str, object]]
) -> tuple[dict[str, float], list[Candidate]]:
    """Bound the scores of candidates without any rare word, and put these last.

    The bound of each of them, and the candidates; none and as they are where no candidate has all rare words.
    """
    complete = [candidate.score for candidate in candidates if all(candidate.id in found for found in rare)]
    if not rare or not complete:
        return {}, candidates
    most = min(complete)
    having = [candidate for candidate in candidates if any(candidate.id in found for found in rare)]
    others = [candidate for candidate in candidates if all(candidate.id not in found for found in rare)]
    for candidate in others:
        candidate.score = min(candidate.score, most)
    return {candidate.id: most for candidate in others}, having + others


def _identifies(word: str) -> bool:
    return len(word) >= _IDENTIFIER and any(letter.isdigit() for letter in word)


def _mark(term: int) -> str:
    return base64.urlsafe_b64encode((term & 0xFFFFFF).to_bytes(3)).decode()


def _find(joined: str, wanted: Set[str]) -> Mapping[str, Sequence[int]]:
    """The positions of these marks' terms among joined marks."""
    if len(wanted) < _FEW_MARKS or len(joined) % _SIZE or not joined.isascii():
        return {mark: list(_find_one(joined, mark)) for mark in wanted}
    terms = np.frombuffer(joined.encode("ascii"), np.uint8).reshape(-1, _SIZE)[:, :_TERM].copy().view("<u4").ravel()
    places: dict[str, list[int]] = {}
    numbers = [int.from_bytes(mark.encode("ascii"), "little") for mark in wanted]
    for place in (_SIZE * np.flatnonzero(np.isin(terms, np.array(numbers, np.uint32)))).tolist():
        places.setdefault(joined[place : place + _TERM], []).append(place)
    return places


def _find_one(joined: str, mark: str) -> Iterator[int]:
    at = joined.find(mark)
    while at >= 0:
        if not at % _SIZE:
            yield at
        at = joined.find(mark, at + 1)


@cache
def _fields_of(bits: int, fields: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for number, name in enumerate(fields) if bits >> min(number, _FIELDS - 1) & 1)
