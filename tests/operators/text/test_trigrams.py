"""Trigrams of words: misspelt words share most of them with the right ones."""

import math
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.text.analysis import analyse
from operators.text.folding import fold_umlauts
from operators.text.terms import (
    MOST_TRIGRAMS,
    SparseVector,
    trigrams,
    trigrams_of_document,
    trigrams_of_query,
)

texts = st.text(max_size=60)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("torch", " to tor orc rch ch "),
        ("Éclair", " ec ecl cla lai air ir "),
        ("ＴＡＰ", " ta tap ap "),
        ("tap tap", " ta tap ap "),
        ("to be", ""),
        ("WH-1000XM5 x200", ""),
        ("折りたたみ傘", ""),
        ("กินข้าว", ""),
        ("ភាសាខ្មែរ", ""),
        ("မြန်မာ", ""),
        ("", ""),
    ],
)
def test_the_trigrams_of_words(text: str, found: str) -> None:
    """With the edges of words, in small letters without accents; none of short words, of identifiers, and of
    scripts without spaces.
    """
    assert list(trigrams(words(text))) == _read(found)


def words(text: str) -> list[str]:
    """The words of a query."""
    return [token.text for token in analyse(text, query=True) if token.is_word]


def _read(found: str) -> list[str]:
    """The trigrams of one word as the table writes them: with spaces between, the first and the last with an edge."""
    parts = found.split()
    return [f" {parts[0]}", *parts[1:-1], f"{parts[-1]} "] if parts else []


def test_a_misspelt_word_is_near_the_right_one_and_no_other() -> None:
    """The document with the word that is meant has the highest score, and one of another word a low one."""
    near, far = (score("screwdrivr", text) for text in ("screwdriver", "umbrella stand"))
    assert near > 0.7
    assert far < 0.1


@given(texts)
def test_a_text_is_nearest_to_itself(text: str) -> None:
    """Its score is 1, as a cosine is, if the query's trigrams are not bounded, and no letters may be an umlaut."""
    asked = trigrams_of_query(words(text))
    if (
        asked.indices
        and len(asked.indices) < MOST_TRIGRAMS
        and {*trigrams(words(text))} == {*trigrams(map(fold_umlauts, words(text)))}
    ):
        assert score(text, text) == pytest.approx(1.0)


@given(texts, texts, st.floats(0.1, 10))
def test_vectors_are_in_order_and_scores_are_bounded(first: str, second: str, weight: float) -> None:
    """Ids ascend, each once; a score in one field is from 0 to 1, whatever its weight."""
    made = trigrams_of_document([(first, weight)])
    asked = trigrams_of_query(words(second))
    assert made.indices == sorted(set(made.indices))
    assert all(0 <= id_ < 2**32 for id_ in made.indices)
    assert 0 <= product(asked, made) <= 1 + 1e-9


def test_a_title_says_more_than_a_text() -> None:
    """Worked by hand: `tap` has three trigrams; in the title of weight 2 each is 1/√3, in the text of weight 1 half."""
    [title, *_] = trigrams_of_document([("tap", 2.0), ("", 1.0)]).values
    [text, *_] = trigrams_of_document([("", 2.0), ("tap", 1.0)]).values
    assert [title, text] == pytest.approx([1 / math.sqrt(3), 0.5 / math.sqrt(3)])


def test_ids_are_the_same_in_every_process() -> None:
    """They are in the index: another hash would find nothing."""
    assert trigrams_of_query(["tap"]) == SparseVector(
        sorted(map(crc32, (b" ta", b"tap", b"ap "))), [1 / math.sqrt(3)] * 3
    )


def test_a_query_has_a_bounded_number() -> None:
    """Its first words count."""
    asked = trigrams_of_query([f"word{chr(97 + one)}{chr(97 + two)}" for one in range(26) for two in range(26)])
    assert len(asked.indices) == MOST_TRIGRAMS
    assert trigrams_of_query(["5x6", "ab"]) == SparseVector([], [])


def test_a_german_word_without_its_umlaut_has_the_trigrams_of_both() -> None:
    """`muetze` is written for `Mütze`, of which documents have the trigrams without accents."""
    both = {*trigrams_of_query(["muetze"]).indices}
    assert {*trigrams_of_query(["m\u00fctze"]).indices} < both
    assert both > {crc32(each.encode()) for each in trigrams(["muetze"])}


def score(query: str, text: str) -> float:
    """The leg's score of a document of one field."""
    asked = trigrams_of_query(words(query))
    return product(asked, trigrams_of_document([(text, 1.0)]))


def product(first: SparseVector, second: SparseVector) -> float:
    """The inner product."""
    values = dict(zip(second.indices, second.values, strict=True))
    return math.fsum(value * values.get(id_, 0.0) for id_, value in zip(first.indices, first.values, strict=True))
