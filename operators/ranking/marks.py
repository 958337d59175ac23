"""Marks: the terms of a document in its payload, by which ranking knows the words of candidates without their texts.

Indexing keeps a mark of each of a document's terms, with the fields that have it. A mark has 24 of a term's 32 bits: a
document of 150 terms seems to have a word that it lacks once in 100,000 times.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cache
from itertools import chain
from typing import Final, TypeGuard

import numpy as np
from numpy.typing import NDArray

from operators.ranking.candidate import Payload
from operators.ranking.run import Matches
from operators.text.terms import QueryWord
from schemas.document import MARKS

_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_MARK: Final = np.dtype([("term", "<u4"), ("fields", "u1")])
_FIELDS: Final = 6
"""A mark: four letters of the term, and one with a bit for each field; the last bit is that of all further ones."""

_BITS: Final = np.array([max(_LETTERS.find(chr(code)), 0) for code in range(128)])
"""The bits of a mark's last letter, by its code."""


def marks(fields: Sequence[Iterable[int]]) -> str:
    """The marks of a document's terms; `fields` has the terms of each field, in the order of the fields."""
    found: dict[int, int] = {}
    for number, terms in enumerate(fields):
        for term in terms:
            found[term] = found.get(term, 0) | 1 << min(number, _FIELDS - 1)
    return "".join(_mark(term) + _LETTERS[bits] for term, bits in found.items())


def are_marks(value: object) -> TypeGuard[str]:
    """True if a payload's value has the form of at least one mark."""
    return isinstance(value, str) and bool(value) and not len(value) % _MARK.itemsize and value.isascii()


def read_marks(marked: str) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """A number for each term of some marks, and which of the terms the first field has."""
    read = np.frombuffer(marked.encode("ascii"), _MARK)
    return read["term"].copy(), (_BITS[read["fields"]] & 1).astype(bool)


def find_matches(words: Sequence[QueryWord], payloads: Mapping[str, Payload], fields: Sequence[str]) -> Matches | None:
    """Which candidates have which of a query's words and forms; `payloads` are those of the candidates by id.

    A form that no candidate has is none of the query. None where a candidate has no marks: nothing is known of its
    words.
    """
    marked = [each for payload in payloads.values() if (each := payload.get(MARKS)) == "" or are_marks(each)]
    if len(marked) < len(payloads):
        return None
    numbers = [[_number(term) for term in word.terms] for word in words]
    found = _find(marked, list(payloads), set(chain.from_iterable(numbers)))
    named = _fields_by_bits(tuple(fields))
    matches: dict[str, Mapping[str, Sequence[str]]] = {}
    atoms: dict[str, tuple[int, int]] = {}
    for word, its in zip(words, numbers, strict=True):
        bits: dict[str, int] = {}
        for number in its:
            also = found[number]
            bits = {**bits, **{id_: bits.get(id_, 0) | each for id_, each in also.items()}} if bits else also
        if word.text not in atoms and (bits or word.atoms == 1):
            matches[word.text] = {id_: named[each] for id_, each in bits.items()}
            atoms[word.text] = word.first, word.atoms
    return Matches(matches, atoms)


def _mark(term: int) -> str:
    return base64.urlsafe_b64encode((term & 0xFFFFFF).to_bytes(3)).decode()


def _number(term: int) -> int:
    """The letters of a term's mark as one number."""
    return int.from_bytes(_mark(term).encode("ascii"), "little")


def _find(marked: Sequence[str], ids: Sequence[str], wanted: Set[int]) -> Mapping[int, dict[str, int]]:
    """The documents that have each of these terms, with the bits of the fields; each of `marked` is one's marks."""
    read = np.frombuffer("".join(marked).encode("ascii"), _MARK)
    terms = read["term"].copy()
    # Few terms begin with two letters of those that are wanted, and only these are compared with them.
    begins = np.zeros(1 << 16, bool)
    begins[[number & 0xFFFF for number in wanted]] = True
    places = np.flatnonzero(begins[terms.view("<u2")[::2]])
    ends = np.cumsum([len(each) // _MARK.itemsize for each in marked])
    documents = np.searchsorted(ends, places, side="right")
    found: dict[int, dict[str, int]] = {number: {} for number in wanted}
    rows = zip(terms[places].tolist(), documents.tolist(), _BITS[read["fields"][places]].tolist(), strict=True)
    for number, document, bits in rows:
        if (its := found.get(number)) is not None:
            # Two terms of a document may have one mark.
            its[ids[document]] = its.get(ids[document], 0) | bits
    return found


@cache
def _fields_by_bits(fields: tuple[str, ...]) -> Sequence[Sequence[str]]:
    """The names of the fields that a mark's bits mean."""
    return [
        tuple(name for number, name in enumerate(fields) if bits >> min(number, _FIELDS - 1) & 1)
        for bits in range(1 << _FIELDS)
    ]
