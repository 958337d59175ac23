"""The needs of a collection: every parameter of an index and of a vector counts, and what does more is enough."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.clients.qdrant.answers import CollectionInfo
from operators.indexing.collection import needs
from operators.indexing.inspection import (
    Lack,
    Schema,
    Step,
    additions,
    creation,
    describe,
    format_schema,
    lack,
)
from operators.indexing.suitability import problems
from schemas.settings import QdrantSettings
from schemas.settings.qdrant import Vectors

WANTED = needs(QdrantSettings(url="http://qdrant", dimension=4, indexes={"price": "float"}))


def info(
    indexes: dict[str, Any] | None = None, vectors: dict[str, Any] | None = None, sparse: dict[str, Any] | None = None
) -> CollectionInfo:
    """A collection as rankstream makes it, but for what is given."""
    own = {**WANTED.indexes, **(indexes or {})}
    return CollectionInfo(
        points=0,
        shards=1,
        vectors={**WANTED.vectors, **(vectors or {})},
        sparse_vectors={**WANTED.sparse_vectors, **(sparse or {})},
        indexes={name: _described(schema) for name, schema in own.items() if schema is not None},
        metadata={},
        strict={},
    )


def _described(schema: Schema) -> dict[str, Any]:
    return {"data_type": schema["type"], "params": {**schema}, "points": 0}


def found(made: Lack) -> tuple[str, bool]:
    """The differences, and True if all of them are mild."""
    return describe(made.differences), all(each.mild for each in made.differences)


def test_a_collection_as_rankstream_makes_it_lacks_nothing() -> None:
    """Neither vectors nor indexes."""
    made = lack(WANTED, info())
    assert (made.differences, made.missing) == ([], {})


@given(st.sets(st.sampled_from(sorted(WANTED.indexes))))
def test_each_index_that_is_not_there_is_missing(absent: set[str]) -> None:
    """With the parameters that it is to have, and no other one; the steps add just these."""
    made = lack(WANTED, info(dict.fromkeys(absent)))
    assert made.missing == {field: WANTED.indexes[field] for field in absent}
    assert made.differences == []
    steps = additions("docs", made.missing)
    assert {step.field: step.schema for step in steps} == made.missing


@pytest.mark.parametrize(
    ("field", "there", "difference"),
    [
        ("title", {"type": "keyword"}, "the index of title is of type keyword, and should be text"),
        ("price", {"type": "integer"}, "the index of price is of type integer, and should be float"),
        ("title", {"type": "text", "tokenizer": "word"}, "the index of title is without phrase_matching"),
        (
            "text",
            {"type": "text", "tokenizer": "prefix", "lowercase": False, "phrase_matching": True},
            "the index of text has tokenizer prefix, and should have word; "
            "the index of text has lowercase false, and should have true",
        ),
        (
            "text",
            {"type": "text", "phrase_matching": True, "min_token_len": 3},
            "the index of text has min_token_len 3, and should have none",
        ),
    ],
)
def test_an_index_that_does_less_differs(field: str, there: Schema, difference: str) -> None:
    """In its type, or in a parameter: answers would lack something."""
    assert found(lack(WANTED, info({field: there}))) == (difference, False)


@pytest.mark.parametrize(
    ("field", "there", "difference"),
    [
        ("namespace", {"type": "keyword"}, "the index of namespace is without is_tenant"),
        ("_text_words", {"type": "keyword"}, "the index of _text_words is without prefix"),
        ("_version", {"type": "integer", "lookup": True, "range": False}, "the index of _version is without range"),
        ("_token_ids", {"type": "integer", "lookup": False}, "the index of _token_ids is without lookup"),
    ],
)
def test_an_index_that_is_slower_is_mild(field: str, there: Schema, difference: str) -> None:
    """Qdrant reads the payloads instead, or refuses in strict mode: no answer is another one."""
    assert found(lack(WANTED, info({field: there}))) == (difference, True)


@pytest.mark.parametrize(
    ("field", "there"),
    [
        ("subject", {"type": "keyword", "prefix": True, "is_tenant": True, "on_disk": True}),
        ("_token_ids", {"type": "integer"}),
        ("text", {"type": "text", "phrase_matching": True, "stemmer": {"type": "none"}}),
        ("text", {"type": "text", "tokenizer": "word", "lowercase": None, "phrase_matching": True}),
    ],
)
def test_an_index_that_does_more_is_enough(field: str, there: Schema) -> None:
    """A description's missing field has Qdrant's default, and where an index is stored is not asked."""
    assert lack(WANTED, info({field: there})).differences == []


@pytest.mark.parametrize(
    ("vectors", "difference", "mild"),
    [
        ({"dense": {"size": 8, "distance": "Cosine"}}, "the vector dense has size 8, and should have 4", False),
        ({"dense": {"size": 4, "distance": "Dot"}}, "the vector dense has distance Dot, and should have Cosine", True),
        (
            {"dense": {"size": 4, "distance": "Euclid"}},
            "the vector dense has distance Euclid, and should have Cosine",
            False,
        ),
        ({"tokens": {"size": 4, "distance": "Dot"}}, "the vector tokens should be a multivector", False),
        (
            {"dense": {"size": 4, "distance": "Cosine", "datatype": "uint8"}},
            "the vector dense has the datatype uint8, which keeps no fractions",
            False,
        ),
        (
            {"tokens": {**WANTED.vectors["tokens"], "datatype": "uint8"}},
            "the vector tokens has the datatype uint8, which keeps no fractions",
            False,
        ),
    ],
)
def test_a_vector_of_another_kind_differs(vectors: dict[str, Any], difference: str, mild: bool) -> None:
    """In its size, its distance or its form; an inner product still ranks."""
    assert found(lack(WANTED, info(vectors=vectors))) == (difference, mild)


def test_the_modifier_of_the_sparse_vector_counts() -> None:
    """Without IDF rare terms weigh no more than frequent ones: another order, and nothing is lost."""
    made = lack(WANTED, info(sparse={"bm25": {}}))
    assert found(made) == ("the sparse vector bm25 has the modifier none, and should have idf", True)


def test_a_collection_of_another_program_lacks_all_vectors() -> None:
    """An unnamed vector is none of those that are named."""
    there = CollectionInfo(0, 1, {"": {"size": 4, "distance": "Cosine"}}, {}, {}, {}, {})
    made = lack(WANTED, there)
    assert describe(made.differences) == (
        "the vector dense isn't there; the sparse vector bm25 isn't there; the vector tokens isn't there"
    )
    assert made.missing == WANTED.indexes


def test_the_unnamed_vector_can_be_the_one_that_is_wanted() -> None:
    """It is looked for by the name "", and token vectors that are not configured are not missed."""
    plain = needs(QdrantSettings(url="http://qdrant", dimension=4, vectors=Vectors(dense="", tokens=None)))
    there = CollectionInfo(0, 1, {"": {"size": 8, "distance": "Cosine"}}, {"bm25": {"modifier": "idf"}}, {}, {}, {})
    assert describe(lack(plain, there).differences) == "the unnamed vector has size 8, and should have 4"


def test_a_creation_is_the_collection_and_then_its_indexes() -> None:
    """In words that name each."""
    first, *others = creation("docs", WANTED)
    assert first == Step("docs")
    assert str(first) == "collection docs"
    assert [step.field for step in others] == list(WANTED.indexes)
    assert str(others[0]) == "index price (float) in collection docs"
    assert format_schema(WANTED.indexes["text"]) == "text, tokenizer word, lowercase, phrase_matching"


@pytest.mark.parametrize("leg", ["learned", "fuzzy"])
@pytest.mark.parametrize(
    ("sparse", "difference"),
    [
        ({}, "the sparse vector splade isn't there"),
        ({"splade": {}}, ""),
        ({"splade": {"modifier": "idf"}}, "the sparse vector splade has the modifier idf, and should have none"),
    ],
)
def test_a_weighed_vector_is_there_without_a_modifier(leg: str, sparse: dict[str, Any], difference: str) -> None:
    """Neither difference is mild: the leg does without such a vector, and no document is written for it."""
    wanted = needs(QdrantSettings(url="http://qdrant", dimension=4, vectors=Vectors.model_validate({leg: "splade"})))
    made = lack(wanted, replace(info(), sparse_vectors={"bm25": {"modifier": "idf"}, **sparse}))
    assert describe(getattr(made, leg)) == describe(made.vectors) == difference
    assert not any(each.mild for each in made.vectors)
    said = [problem.what for problem in problems(wanted, info(sparse=sparse), late_interaction=True)]
    assert said == ([f"the leg {leg} finds nothing: {difference}"] if difference else [])
