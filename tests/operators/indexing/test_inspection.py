"""What a collection lacks of what is wanted of it."""

from typing import Any

import pytest

from operators.clients.qdrant.answers import CollectionInfo
from operators.indexing.inspection import Difference, Inspection, inspect

TEXT = {"type": "text", "tokenizer": "word", "lowercase": True, "phrase_matching": True}
DENSE = {"dense": {"size": 3, "distance": "Cosine"}}


def info(
    indexes: dict[str, Any] | None = None, vectors: dict[str, Any] | None = None, sparse: dict[str, Any] | None = None
) -> CollectionInfo:
    """A collection that has these."""
    there = DENSE if vectors is None else vectors
    return CollectionInfo(
        0, 1, there, {"bm25": {"modifier": "idf"}} if sparse is None else sparse, indexes or {}, {}, {}
    )


def of_index(wanted: dict[str, Any], params: dict[str, Any] | None, kind: str | None = None) -> Inspection:
    """The inspection of one index, described with these parameters."""
    described: dict[str, Any] = {"data_type": kind or wanted["type"], "points": 0}
    if params is not None:
        described["params"] = {"type": described["data_type"], **params}
    return inspect(info({"f": described}), {"f": wanted}, DENSE, "bm25")


def test_a_missing_index_is_named_with_its_schema() -> None:
    """What isn't there can be made from what is said of it."""
    assert inspect(info(), {"f": TEXT}, DENSE, "bm25") == Inspection({"f": TEXT}, (), ())


@pytest.mark.parametrize(
    ("wanted", "params"),
    [
        (TEXT, {"tokenizer": "word", "lowercase": True, "phrase_matching": True}),
        (TEXT, {"phrase_matching": True}),
        ({"type": "keyword"}, None),
        ({"type": "keyword"}, {"prefix": True, "is_tenant": True}),
        ({"type": "keyword", "is_tenant": True}, {}),
        ({"type": "integer", "lookup": True, "range": False}, {}),
        ({"type": "integer"}, None),
        ({"type": "datetime"}, {"is_principal": True}),
    ],
)
def test_what_is_as_good_is_no_difference(wanted: dict[str, Any], params: dict[str, Any] | None) -> None:
    """Defaults are Qdrant's, more than is wanted is enough, and what changes no answer doesn't count."""
    assert not of_index(wanted, params).differences


@pytest.mark.parametrize(
    ("wanted", "params", "name", "grave"),
    [
        (TEXT, {}, "phrase_matching", True),
        (TEXT, {"phrase_matching": True, "tokenizer": "prefix"}, "tokenizer", True),
        (TEXT, {"phrase_matching": True, "lowercase": False}, "lowercase", True),
        (TEXT, {"phrase_matching": True, "stopwords": "english"}, "stopwords", True),
        (TEXT, {"phrase_matching": True, "min_token_len": 2}, "min_token_len", True),
        ({"type": "keyword", "prefix": True}, None, "prefix", False),
        ({"type": "integer"}, {"lookup": False}, "lookup", False),
        ({"type": "integer"}, {"range": False}, "range", False),
    ],
)
def test_a_parameter_that_differs_is_named(wanted: dict[str, Any], params: Any, name: str, grave: bool) -> None:
    """A text index of another kind gives other answers; an index that can do less makes Qdrant slow, or refuse."""
    (difference,) = of_index(wanted, params).indexes
    assert (difference.index, difference.name, difference.grave) == ("f", name, grave)


def test_an_index_of_another_type_is_one_difference() -> None:
    """Its parameters don't matter any more."""
    (difference,) = of_index(TEXT, {}, "keyword").indexes
    assert str(difference) == "the index of f: type is keyword, and should be text"
    assert difference.grave


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({}, ["the vector 'dense' is not there, and should be of 3 components"]),
        ({"dense": {"size": 4, "distance": "Cosine"}}, ["the vector 'dense': size is 4, and should be 3"]),
        (
            {"dense": {"size": 4, "distance": "Dot"}},
            [
                "the vector 'dense': size is 4, and should be 3",
                "the vector 'dense': distance is Dot, and should be Cosine",
            ],
        ),
    ],
)
def test_vectors_that_do_not_fit_are_named(found: dict[str, Any], said: list[str]) -> None:
    """The searched vector is there, as long as the embedder's, and compared as it must be."""
    assert [str(each) for each in inspect(info(vectors=found), {}, DENSE, "bm25").vectors] == said


def test_a_sparse_vector_needs_the_modifier_idf() -> None:
    """Without it, rare words count no more than others."""
    (plain,) = inspect(info(sparse={"bm25": {}}), {}, DENSE, "bm25").vectors
    assert plain == Difference(None, "the sparse vector 'bm25': modifier", "idf", None)
    (absent,) = inspect(info(sparse={}), {}, DENSE, "bm25").vectors
    assert str(absent) == "the sparse vector 'bm25' is not there, and should be there"
    assert not inspect(info(sparse={}), {}, DENSE, None).vectors
