"""Words: cut where the engine's `word` tokenizer cuts."""

import sys
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from qdrant_edge import (
    CountRequest,
    EdgeConfig,
    EdgeShard,
    EdgeSparseVectorParams,
    FieldCondition,
    Filter,
    HasIdCondition,
    MatchPhrase,
    MatchText,
    Point,
    TextIndexParams,
    TokenizerType,
    UpdateOperation,
)

from operators.collections.analysers import Bm25
from operators.text.words import split_words, words
from schemas.settings.qdrant import Bm25Settings

PLAIN = Bm25(Bm25Settings(language="none"))
CHUNK = 512


@pytest.fixture(scope="module")
def shard() -> Iterator[EdgeShard]:
    """A shard with one indexed text."""
    with tempfile.TemporaryDirectory() as path:
        config = EdgeConfig(vectors={}, sparse_vectors={"bm25": EdgeSparseVectorParams()}, wal_enabled=True)
        made = EdgeShard.create(path, config)
        params = TextIndexParams(tokenizer=TokenizerType.Word, lowercase=True, phrase_matching=True)
        made.update(UpdateOperation.create_field_index("text", params))
        yield made
        made.close()


@pytest.mark.slow
def test_every_code_point_is_a_letter_where_it_is_one_for_the_engine() -> None:
    """Of each code point it is the same whether it separates words."""
    points = [point for point in range(sys.maxunicode + 1) if not 0xD800 <= point < 0xE000]
    wrong = []
    for start in range(0, len(points), CHUNK):
        text = " ".join(f"a{point:x}q{chr(point)}q{point:x}" for point in points[start : start + CHUNK])
        if len(PLAIN.document(text).indices) != len(set(words(text))):
            wrong.append(hex(points[start]))
    assert wrong == []


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=30))
@example("İstanbul ΑΣ σας ǅ ﬁ ß")
@example("हिन्दी foo_bar don't 12:30 x²½ ①Ⓐ é é a\u200bb 日本語")
def test_words_are_the_engines(shard: EdgeShard, text: str) -> None:
    """A text holds each of its words for the engine, and no word of them cut further; all of them are its phrase."""
    shard.update(UpdateOperation.upsert_points([Point(1, {}, {"text": text})]))

    def matches(condition: FieldCondition) -> bool:
        return shard.count(CountRequest(exact=True, filter=Filter(must=[HasIdCondition({1}), condition]))) == 1

    held = split_words(text)
    assert all(matches(FieldCondition("text", match=MatchText(word))) for word in held)
    assert matches(FieldCondition("text", match=MatchPhrase(" ".join(held)))) == bool(held)
    assert len(PLAIN.document(text).indices) == len(set(words(text)))


@given(st.text())
def test_words_are_cut_words_in_lower_case(text: str) -> None:
    """Each is not empty, its characters are the text's, and it is cut no further."""
    assert [word.lower() for word in split_words(text)] == words(text)
    assert all(word in text and split_words(word) == [word] for word in split_words(text))


def test_words_by_hand() -> None:
    """Accents of their own and underscores separate, vowel signs don't, and a word is lowered after it is cut."""
    assert words("Sister's foo_bar, 12:30") == ["sister", "s", "foo", "bar", "12", "30"]
    assert words("पानी का x\u0301y") == ["पानी", "का", "x", "y"]
    assert words("İ ΑΣ") == ["i̇", "ας"]
    assert words("\ud800a") == ["a"]
    assert words("…") == []
