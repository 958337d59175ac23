"""Marks: the terms of a document in its payload, by which ranking knows the words of candidates without their texts.

Indexing keeps a mark of each of a document's terms, with the fields that have it. A mark has 24 of a term's 32 bits: a
document of 150 terms seems to have a word that it lacks once in 100,000 times.
"""

import base64
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from itertools import accumulate, chain
from typing import Final, TypeGuard

import numpy as np
from numpy.typing import NDArray

from operators.ranking.candidate import Payload
from operators.ranking.run import Matches
from operators.text.terms import QueryWord
from schemas.document import MARKS

_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_TERM: Final = 4
_SIZE: Final = _TERM + 1
_FIELDS: Final = 6
"""Letters of a mark: those of the term, and one with a bit for each field; the last bit is that of all further ones."""

_IN_FIRST: Final = np.array([_LETTERS.find(chr(letter)) % 2 == 1 and chr(letter) in _LETTERS for letter in range(128)])
"""By the code of a mark's last letter: does it have the bit of the first field?"""

_FEW_MARKS: Final = 4
"""Marks from which on it costs less to look for all at once."""


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


def find_matches(words: Sequence[QueryWord], payloads: Mapping[str, Payload], fields: Sequence[str]) -> Matches | None:
    """Which candidates have which of a query's words and forms; `payloads` are those of the candidates by id.

    A form that no candidate has is none of the query. None where a candidate has no marks: nothing is known of its
    words.
    """
    marked = [each for payload in payloads.values() if isinstance(each := payload.get(MARKS), str)]
    if len(marked) < len(payloads):
        return None
    ids, ends, joined = list(payloads), list(accumulate(map(len, marked))), "".join(marked)
    read = [[_mark(term) for term in word.terms] for word in words]
    places = _find(joined, set(chain.from_iterable(read)))
    matches: dict[str, Mapping[str, Sequence[str]]] = {}
    atoms: dict[str, tuple[int, int]] = {}
    for word, its_marks in zip(words, read, strict=True):
        found: dict[str, int] = {}
        for mark in its_marks:
            for at in places.get(mark, ()):
                bits = _LETTERS.index(joined[at + _TERM])
                id_ = ids[bisect_right(ends, at)]
                found[id_] = found.get(id_, 0) | bits
        if word.text not in atoms and (found or word.atoms == 1):
            matches[word.text] = {id_: _fields_of(bits, tuple(fields)) for id_, bits in found.items()}
            atoms[word.text] = word.first, word.atoms
    return Matches(matches, atoms)


def narrow(matches: Matches, ids: Collection[str]) -> Matches:
    """The matches of these candidates alone, as if there had been no others."""
    found = {word: {id_: each for id_, each in its.items() if id_ in ids} for word, its in matches.fields.items()}
    kept = {word: its for word, its in found.items() if its or matches.atoms[word][1] == 1}
    return Matches(kept, {word: matches.atoms[word] for word in kept})


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
