"""The misfits of a collection's vectors: in words that name what is there, and whether a search works."""

from dataclasses import replace
from typing import Any

import pytest

from operators.clients.qdrant.answers import CollectionInfo
from operators.clients.qdrant.collections.analysers import CURRENT
from operators.indexing.suitability import absent, problems, searchable, vectors
from schemas.settings import QdrantSettings
from schemas.settings.qdrant import ContextSettings

SETTINGS = QdrantSettings(url="http://qdrant", dimension=4)
WANTED = vectors(SETTINGS)
TOKENS = {"size": 4, "distance": "Dot", "multivector_config": {"comparator": "max_sim"}}
DENSE = {"size": 4, "distance": "Cosine"}
TERMS = {"bm25": {"modifier": "idf"}}


def info(held: dict[str, Any], sparse: dict[str, Any] | None = None) -> CollectionInfo:
    """A collection with these vectors; terms as rankstream needs them, but for what is given."""
    return CollectionInfo(0, 1, held, TERMS if sparse is None else sparse, {}, {}, {})


def told(collection: CollectionInfo, *, late_interaction: bool = True) -> list[tuple[str, str]]:
    """The level and the words of each problem, which must say what to do."""
    found = list(problems(WANTED, collection, late_interaction=late_interaction))
    assert all(problem.remedy for problem in found)
    return [(problem.level, problem.what) for problem in found]


def test_a_collection_as_rankstream_makes_it_has_no_problem() -> None:
    """With its token vectors, and without them where no reranker reads them."""
    assert told(info({"dense": DENSE, "tokens": TOKENS})) == []
    assert told(info({"dense": DENSE}), late_interaction=False) == []
    assert told(info({"dense": DENSE})) == [
        ("warning", "late interaction is off here: the vector tokens isn't there"),
    ]


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ({"dense": {"size": 8, "distance": "Cosine"}}, "the vector dense has size 8, and should have 4"),
        ({"embedding": DENSE}, "the vector dense isn't there; the collection has embedding (4)"),
        ({"": {"size": 8}}, "the vector dense isn't there; the collection has the unnamed one (8)"),
        ({}, "the vector dense isn't there; the collection has none"),
    ],
)
def test_a_vector_that_cannot_be_searched_is_an_error(held: dict[str, Any], said: str) -> None:
    """It says what the vector should be, and by which names it may be meant."""
    assert told(info(held), late_interaction=False) == [("error", f"the vector leg cannot search: {said}")]


@pytest.mark.parametrize(
    ("held", "sparse", "works"),
    [
        ({"dense": DENSE}, None, True),
        ({"dense": DENSE}, {}, True),
        ({"dense": {"size": 4, "distance": "Dot"}}, None, True),
        ({"dense": {"size": 4, "distance": "Euclid"}}, None, True),
        ({"dense": {"size": 8, "distance": "Cosine"}}, None, False),
        ({"dense": {"size": 8, "distance": "Dot"}}, None, False),
        ({"embedding": DENSE}, None, False),
        ({"": DENSE}, None, False),
        ({}, None, True),
        ({}, {"splade": {}}, False),
    ],
)
def test_a_collection_can_be_searched(held: dict[str, Any], sparse: dict[str, Any] | None, works: bool) -> None:
    """If Qdrant takes the vectors of queries, whatever the distance; a collection of terms alone, by its terms."""
    assert searchable(WANTED, info(held, sparse)) == works


def test_a_collection_that_is_not_there_can_be_made_by_a_command() -> None:
    """But not one that another tool is to fill."""
    assert "rankstream collections --create" in absent(SETTINGS).remedy
    other = QdrantSettings(url="http://qdrant", ids="uuid")
    assert "--create" not in absent(other).remedy


def test_a_collection_without_context_is_said_where_there_should_be_some() -> None:
    """Both vectors of documents with their neighbours, which no configuration without context needs."""
    wanted = vectors(QdrantSettings(url="http://qdrant", dimension=4, context=ContextSettings(order_by="turn")))
    held = info({"dense": DENSE})
    [problem] = problems(wanted, held, late_interaction=False)
    assert problem.level == "warning"
    assert "dense_context isn't there" in problem.what
    assert "bm25_context isn't there" in problem.what
    whole = info({"dense": DENSE, "dense_context": DENSE}, {**TERMS, "bm25_context": {"modifier": "idf"}})
    assert list(problems(wanted, whole, late_interaction=False)) == []


E5 = {"query": {"prefix": "query: "}, "document": {"prefix": "passage: "}}


@pytest.mark.parametrize(
    ("noted", "purposes", "differ"),
    [
        ({"prompts": E5}, E5, False),
        ({"prompts": E5}, {}, True),
        ({"prompts": {}}, E5, True),
        ({"prompts": {}}, {}, False),
        ({"prompts": E5}, {**E5, "query": {"prefix": "q: "}}, True),
        ({"prompts": E5}, None, False),
        ({"prompts": "e5"}, {}, False),
        ({}, E5, False),
        (None, E5, False),
    ],
)
def test_other_prompts_than_the_indexs_are_a_warning(noted: Any, purposes: Any, differ: bool) -> None:
    """Both must be known: not so in a collection of before, nor if queries bring their own vectors."""
    fits = info({"dense": DENSE, "tokens": TOKENS})
    known = replace(fits, metadata={"rankstream": {"analysis": CURRENT, **noted} if noted is not None else None})
    found = list(problems(WANTED, known, late_interaction=True, purposes=purposes))
    assert [problem.level for problem in found] == ["warning"] * differ
    assert all("prompts differ" in problem.what and "embedder.prompts" in problem.remedy for problem in found)


@pytest.mark.parametrize(
    ("noted", "lacks"),
    [
        ({"rankstream": {"bm25": {}}}, "joined part numbers, and pairs of characters for scripts that write no spaces"),
        (
            {"rankstream": {"analysis": 2}},
            "sizes in one spelling, parts of words and of names in code, and joined names",
        ),
        ({"rankstream": {"analysis": CURRENT}}, None),
        ({"owner": "me"}, None),
    ],
)
def test_the_lacks_of_an_earlier_analysis_are_a_warning(noted: Any, lacks: str | None) -> None:
    """It names them, of rankstream's own collections: the terms of another program's are its affair."""
    known = replace(info({"dense": DENSE, "tokens": TOKENS}), metadata=noted)
    found = [(each.level, each.what) for each in problems(WANTED, known, late_interaction=True)]
    outdated = f"the keyword leg finds less: the index was made by an earlier version, without {lacks}"
    assert found == ([] if lacks is None else [("warning", outdated)])
    remedies = [problem.remedy for problem in problems(WANTED, known, late_interaction=True)]
    assert all("Index all documents again" in remedy for remedy in remedies)


@pytest.mark.parametrize(("noted", "said"), [({"title": 1.0, "text": 1}, False), (None, False), ({"title": 2.0}, True)])
def test_other_searched_fields_than_configured_are_a_warning(noted: Any, said: bool) -> None:
    """It names both; a collection that names none searches title and text."""
    ours = {"analysis": CURRENT, **({"fields": noted} if noted is not None else {})}
    known = replace(info({"dense": DENSE, "tokens": TOKENS}), metadata={"rankstream": ours})
    wanted = replace(WANTED, searched={"title": 1.0, "text": 1.0})
    found = [problem.what for problem in problems(wanted, known, late_interaction=True)]
    assert found == ["the keyword leg searches title 2, and the configuration has title 1, text 1"] * said
