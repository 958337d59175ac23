"""Marks: a document's terms in its payload, and which candidates have which words of a query by them."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ranking.marks import find_matches, marks
from operators.ranking.run import Matches
from operators.text.terms import QueryWord
from schemas.document import MARKS

LOW: Final = 0xFFFFFF
"""The bits of a term that a mark has."""

few = st.integers(0, 40)
terms = st.integers(0, 2**32 - 1) | few
documents = st.lists(st.lists(st.lists(terms, max_size=12), min_size=1, max_size=9), max_size=5)
queries = st.lists(
    st.builds(QueryWord, st.sampled_from("abcdef"), st.lists(terms, max_size=3), st.integers(0, 5), st.integers(1, 3)),
    max_size=6,
)


def payloads(marked: list[list[list[int]]]) -> dict[str, dict[str, Any]]:
    """Documents d0, d1 and so on with the terms of each field."""
    return {f"d{number}": {MARKS: marks(fields)} for number, fields in enumerate(marked)}


def words(*words: str, **terms: int) -> list[QueryWord]:
    """Words of one term each; joined ones of two atoms."""
    return [QueryWord(word, [term], 0, 2 if word in words else 1) for word, term in terms.items()]


@given(documents, queries)
def test_a_document_has_the_words_that_it_is_marked_with(marked: list[list[list[int]]], query: list[QueryWord]) -> None:
    """A word is found in each field that has one of its terms, those from the sixth on together; the first of equal
    words counts. A form that nobody has is no word of the query.
    """
    names = [f"f{number}" for number in range(9)]
    found = find_matches(query, payloads(marked), names)
    expected: dict[str, dict[str, tuple[str, ...]]] = {}
    atoms: dict[str, tuple[int, int]] = {}
    for word in query:
        low = {term & LOW for term in word.terms}
        its = {}
        for number, fields in enumerate(marked):
            having = {place for place, field in enumerate(fields) if low & {term & LOW for term in field}}
            also = {place for place in range(5, 9) if any(each >= 5 for each in having)}
            if having:
                its[f"d{number}"] = tuple(names[place] for place in sorted(having | also))
        if word.text not in atoms and (its or word.atoms == 1):
            expected[word.text], atoms[word.text] = its, (word.first, word.atoms)
    assert found == Matches(expected, atoms)


def test_many_words_are_found_in_many_documents() -> None:
    """160 documents of 60 terms, whose marks begin alike, and ten words of two languages."""
    marked = [[[number * 50 + term for term in range(60)]] for number in range(160)]
    query = [QueryWord(f"w{place}", [marked[place * 16][0][place], 9_000 + place], place, 1) for place in range(10)]
    found = find_matches(query, payloads(marked), ["text"])
    assert found is not None
    low = {word.text: {term & LOW for term in word.terms} for word in query}
    assert found.fields == {
        text: {
            f"d{number}": ("text",) for number, (field,) in enumerate(marked) if its & {term & LOW for term in field}
        }
        for text, its in low.items()
    }
    assert all(found.fields.values())


@pytest.mark.parametrize("value", [None, 5, "abc", "ééééé", [], b"AAAAB"])
def test_without_marks_nothing_is_known(value: object) -> None:
    """One candidate of an index that keeps no marks is enough: it may have the words. One without terms has none."""
    known: dict[str, dict[str, Any]] = {"a": {MARKS: marks([[7]])}, "b": {MARKS: ""}}
    assert find_matches(words(seven=7), known, ["text"]) == Matches({"seven": {"a": ("text",)}}, {"seven": (0, 1)})
    assert find_matches(words(seven=7), {**known, "c": {}}, ["text"]) is None
    assert find_matches(words(seven=7), {**known, "c": {MARKS: value}}, ["text"]) is None


def test_a_form_counts_where_a_candidate_has_it() -> None:
    """A form that nobody has is none of the query, unlike a word that nobody has."""
    known = {"a": {MARKS: marks([[7]])}}
    found = find_matches(words("wh1000", "wh1000xm5", wh=3, wh1000=5, wh1000xm5=7), known, ["sku"])
    assert found is not None
    assert found.fields == {"wh": {}, "wh1000xm5": {"a": ("sku",)}}
