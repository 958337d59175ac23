"""The gaps of a collection: every parameter of an index and of a vector counts, and what does more is enough."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.clients.qdrant.answers import CollectionInfo
from operators.collections.analysers import CURRENT
from operators.collections.gaps import find_gaps, find_server_gaps, is_searchable
from operators.collections.making import MakingStep, steps
from operators.collections.notes import collection_metadata
from operators.collections.requirements import (
    MADE,
    Gap,
    Requirement,
    Schema,
    Severity,
    Surveyed,
    format_schema,
    index_needs,
    merge_gaps,
    vectors,
)
from schemas.settings import QdrantSettings
from schemas.settings.qdrant import DEFAULT_FIELDS, Bm25Settings, ContextSettings, Vectors

SETTINGS = QdrantSettings(url="http://qdrant", dimension=4, indexes={"price": "float"})
INDEXES = index_needs(SETTINGS)
NEEDS = [*vectors(SETTINGS), *INDEXES]
SCHEMAS = {need.name: need.wanted for need in INDEXES}
TOKENS = {"size": 4, "distance": "Dot", "multivector_config": {"comparator": "max_sim"}}
DENSE = {"size": 4, "distance": "Cosine"}
TERMS = {"bm25": {"modifier": "idf"}}
ANALYSER = Requirement("terms", (Bm25Settings(), DEFAULT_FIELDS))


def described(schema: Schema) -> dict[str, Any]:
    """An index as a collection describes it."""
    return {"data_type": schema["type"], "params": {**schema}, "points": 0}


def info(
    indexes: dict[str, Any] | None = None,
    held: dict[str, Any] | None = None,
    sparse: dict[str, Any] | None = None,
    **given: Any,
) -> CollectionInfo:
    """A collection as rankstream makes it, with other indexes (None: not there), vectors and sparse vectors."""
    made = {name: described(each) for name, each in {**SCHEMAS, **(indexes or {})}.items() if each is not None}
    own = {"dense": DENSE, "tokens": TOKENS} if held is None else held
    there = CollectionInfo(0, 1, own, TERMS if sparse is None else sparse, made, {}, {})
    return replace(there, **given)


def gaps(there: CollectionInfo, needs: list[Requirement] = NEEDS) -> list[Gap]:
    """The gaps of a collection of rankstream's own, which must say what to do about them."""
    found = find_gaps(needs, Surveyed("docs", "docs", there, "metadata"))
    assert all(gap.cure for gap in found)
    return found


def said(there: CollectionInfo, needs: list[Requirement] = NEEDS) -> list[tuple[Severity, str]]:
    """The severity and the words of each gap, in lines."""
    return [(gap.severity, str(gap)) for gap in merge_gaps(gaps(there, needs))]


def test_a_collection_as_rankstream_makes_it_has_no_gap() -> None:
    """With its token vectors, and without them where no reranker reads them, but not for documents."""
    assert gaps(info()) == []
    [unread] = gaps(info(held={"dense": DENSE}), vectors(SETTINGS, late_interaction=False))
    assert (unread.kind, unread.severity, unread.stops) == ("unread", Severity.NONE, True)
    missed = [(Severity.PARTIAL, "late interaction is off here: the vector tokens isn't there")]
    assert said(info(held={"dense": DENSE})) == missed


@given(st.sets(st.sampled_from(sorted(SCHEMAS))))
def test_each_index_that_is_not_there_is_missing(names: set[str]) -> None:
    """With the parameters that it is to have, and no other one; the steps add just these, in one line of a check."""
    there = info(dict.fromkeys(names))
    found = gaps(there)
    assert {(gap.kind, gap.stops) for gap in found} <= {("missing index", False)}
    assert {gap.need.name: gap.need.wanted for gap in found} == {name: SCHEMAS[name] for name in names}
    assert len(merge_gaps(found)) == bool(names)
    surveyed = [Surveyed("docs", "docs", there, "metadata", gaps=found)]
    added = steps(surveyed, SETTINGS, create=True, add=True, foreign=False)
    assert {(step.collection, step.need.name) for step in added if step.need} == {("docs", name) for name in names}


@pytest.mark.parametrize(
    ("field", "there", "differences"),
    [
        ("title", {"type": "keyword"}, ["the index of title is of type keyword, and should be text"]),
        ("price", {"type": "integer"}, ["the index of price is of type integer, and should be float"]),
        ("title", {"type": "text", "tokenizer": "word"}, ["the index of title is without phrase_matching"]),
        (
            "text",
            {"type": "text", "tokenizer": "prefix", "lowercase": False, "phrase_matching": True},
            [
                "the index of text has tokenizer prefix, and should have word",
                "the index of text has lowercase false, and should have true",
            ],
        ),
        (
            "text",
            {"type": "text", "phrase_matching": True, "min_token_len": 3},
            ["the index of text has min_token_len 3, and should have none"],
        ),
    ],
)
def test_an_index_that_does_less_is_a_gap(field: str, there: Schema, differences: list[str]) -> None:
    """In its type, or in a parameter: answers would lack something; of another program's it is no more than slow."""
    found = gaps(info({field: there}))
    assert [str(gap) for gap in found] == differences
    assert all(gap.severity is Severity.ERROR and gap.stops for gap in found)
    request = f"elete it (DELETE /collections/docs/index/{field})"
    assert all(gap.cure.startswith("Correct qdrant.indexes" if field == "price" else "D") for gap in found)
    assert all(request in gap.cure for gap in found)
    for another in find_gaps(NEEDS, Surveyed("docs", "docs", info({field: there}))):
        assert (another.severity, another.stops, "DELETE" in another.cure) == (Severity.SLIGHT, False, False)


@pytest.mark.parametrize(
    ("field", "there", "difference"),
    [
        ("namespace", {"type": "keyword"}, "the index of namespace is without is_tenant"),
        ("_text_words", {"type": "keyword"}, "the index of _text_words is without prefix"),
        ("_version", {"type": "integer", "lookup": True, "range": False}, "the index of _version is without range"),
        ("_token_ids", {"type": "integer", "lookup": False}, "the index of _token_ids is without lookup"),
    ],
)
def test_an_index_that_is_slower_is_slight(field: str, there: Schema, difference: str) -> None:
    """Qdrant reads the payloads instead, or refuses in strict mode: no answer is another one."""
    [gap] = gaps(info({field: there}))
    assert (gap.what, gap.severity, gap.stops) == (difference, Severity.SLIGHT, False)


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
    assert gaps(info({field: there})) == []


@pytest.mark.parametrize(
    ("held", "line", "severity"),
    [
        (
            {"dense": {**DENSE, "size": 8}},
            "cannot search: the vector dense has size 8, and should have 4",
            Severity.FATAL,
        ),
        (
            {"dense": {**DENSE, "distance": "Dot"}},
            "are no cosines: the vector dense has distance Dot, and should have Cosine",
            Severity.SLIGHT,
        ),
        (
            {"dense": {**DENSE, "distance": "Euclid"}},
            "cannot search: the vector dense has distance Euclid, and should have Cosine",
            Severity.ERROR,
        ),
        (
            {"dense": {**DENSE, "datatype": "uint8"}},
            "cannot search: the vector dense has the datatype uint8, which keeps no fractions",
            Severity.ERROR,
        ),
        (
            {"tokens": {**TOKENS, "multivector_config": None}},
            "the vector tokens should be a multivector",
            Severity.PARTIAL,
        ),
        (
            {"tokens": {**TOKENS, "datatype": "uint8"}},
            "the vector tokens has the datatype uint8, which keeps no fractions",
            Severity.PARTIAL,
        ),
    ],
)
def test_a_vector_of_another_kind_is_a_gap(held: dict[str, Any], line: str, severity: Severity) -> None:
    """In its size, its distance or its form; with an inner product it still ranks, and is written to."""
    [gap] = gaps(info(held={"dense": DENSE, "tokens": TOKENS, **held}))
    assert str(gap).endswith(line)
    assert (gap.severity, gap.stops) == (severity, severity is not Severity.SLIGHT)


@pytest.mark.parametrize(
    ("held", "line"),
    [
        ({"embedding": DENSE}, "the vector dense isn't there; the collection has embedding (4)"),
        ({"": {"size": 8}}, "the vector dense isn't there; the collection has the unnamed one (8)"),
        ({}, "the vector dense isn't there; the collection has none"),
    ],
)
def test_a_vector_that_is_not_there_is_told_with_the_names_of_others(held: dict[str, Any], line: str) -> None:
    """By which it may be meant."""
    found = said(info(held=held), vectors(SETTINGS, late_interaction=False))
    assert found[0] == (Severity.FATAL, f"the vector leg cannot search: {line}")


@pytest.mark.parametrize(
    ("sparse", "line", "severity", "stops"),
    [
        (
            {"bm25": {}},
            "the keyword leg ranks otherwise: the sparse vector bm25 has the modifier none, and should have idf",
            Severity.SLIGHT,
            False,
        ),
        ({}, "the keyword leg finds nothing: the sparse vector bm25 isn't there", Severity.PARTIAL, True),
    ],
)
def test_the_modifier_of_the_sparse_vector_counts(
    sparse: dict[str, Any], line: str, severity: Severity, stops: bool
) -> None:
    """Without IDF rare terms weigh no more than frequent ones: another order, and nothing is lost."""
    [gap] = gaps(info(sparse=sparse))
    assert (str(gap), gap.severity, gap.stops) == (line, severity, stops)


def test_the_unnamed_vector_can_be_the_one_that_is_wanted() -> None:
    """It is looked for by the name "", and token vectors that are not configured are not missed."""
    plain = QdrantSettings(url="http://qdrant", dimension=4, vectors=Vectors(dense="", tokens=None))
    [gap] = gaps(info(held={"": {**DENSE, "size": 8}}), vectors(plain))
    assert gap.what == "the unnamed vector has size 8, and should have 4"


def test_a_creation_is_the_collection_and_then_its_indexes() -> None:
    """In words that name each."""
    made = steps([Surveyed("docs", "docs")], SETTINGS, create=True, add=False, foreign=False)
    first, *others = made
    assert (first, str(first)) == (MakingStep("docs"), "collection docs")
    assert [step.need.name for step in others if step.need] == list(SCHEMAS)
    assert str(others[0]) == "index price (float) in collection docs"
    assert format_schema(SCHEMAS["text"]) == "text, tokenizer word, lowercase, phrase_matching"


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
    """Otherwise the leg does without such a vector, and no document is written for it."""
    named = Vectors.model_validate({leg: "splade"})
    found = gaps(info(sparse={**TERMS, **sparse}), vectors(QdrantSettings(url="http://q", dimension=4, vectors=named)))
    assert [str(gap) for gap in found] == ([f"the leg {leg} finds nothing: {difference}"] if difference else [])
    assert all(gap.stops and gap.severity is Severity.PARTIAL for gap in found)


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
    assert is_searchable(vectors(SETTINGS), info(held=held, sparse=sparse)) == works


def test_a_collection_that_is_not_there_can_be_made_by_a_command() -> None:
    """But not one that another tool is to fill."""
    for own in (True, False):
        needs = [Requirement("presence", own), *NEEDS]
        [gap] = find_gaps(needs, Surveyed("docs", "docs"))
        assert ("rankstream collections --create" in gap.cure) == own
    assert find_gaps(NEEDS, Surveyed("docs", "docs")) == []
    assert gaps(info(), [Requirement("presence", True)]) == []


def test_a_collection_without_context_is_said_where_there_should_be_some() -> None:
    """Both vectors of documents with their neighbours, in one line; no configuration without context needs them."""
    wanted = vectors(QdrantSettings(url="http://qdrant", dimension=4, context=ContextSettings(order_by="turn")))
    [(severity, line)] = said(info(), wanted)
    assert severity is Severity.PARTIAL
    assert line.endswith("the vector dense_context isn't there; the sparse vector bm25_context isn't there")
    held = {"dense": DENSE, "tokens": TOKENS, "dense_context": DENSE}
    assert gaps(info(held=held, sparse={**TERMS, "bm25_context": {"modifier": "idf"}}), wanted) == []


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
def test_other_prompts_than_the_indexs_are_a_gap(noted: Any, purposes: Any, differ: bool) -> None:
    """Both must be known: not so in a collection of before, nor if queries bring their own vectors."""
    found = gaps(info(metadata={"rankstream": noted}), [Requirement("prompts", purposes)])
    assert [gap.severity for gap in found] == [Severity.PARTIAL] * differ
    assert all("prompts differ" in gap.what and "embedder.prompts" in gap.cure for gap in found)


PLAIN_LACKS = "joined part numbers, and pairs of characters for scripts that write no spaces"
SECOND_LACKS = "sizes in one spelling, parts of words and of names in code, and joined names"
UNREADABLE = (
    "the keyword leg may find less: its metadata about terms are none of this version's, and the configured analyser is"
    " used"
)


@pytest.mark.parametrize(
    ("noted", "lines"),
    [
        ({"rankstream": {"bm25": Bm25Settings().model_dump()}}, [PLAIN_LACKS]),
        ({"rankstream": {"analysis": 2}}, [SECOND_LACKS]),
        ({"rankstream": {"analysis": CURRENT}}, []),
        ({"rankstream": {"analysis": CURRENT + 1}}, [UNREADABLE]),
        ({"rankstream": {"bm25": {"language": "klingon"}}}, [UNREADABLE]),
        ({"rankstream": "x"}, [UNREADABLE]),
        ({"owner": "me"}, []),
    ],
)
def test_the_lacks_of_an_earlier_analysis_are_a_gap(noted: Any, lines: list[str]) -> None:
    """It names them, of rankstream's own collections: the terms of another program's are its affair."""
    outdated = "the keyword leg finds less: the index was made by an earlier version, without "
    found = gaps(info(metadata=noted), [ANALYSER])
    assert [str(gap).removeprefix(outdated) for gap in found] == lines
    assert all(gap.severity is Severity.PARTIAL and "Index all documents again" in gap.cure for gap in found)


@pytest.mark.parametrize(("noted", "differ"), [(DEFAULT_FIELDS, False), (None, False), ({"title": 2.0}, True)])
def test_other_searched_fields_than_configured_are_a_gap(noted: Any, differ: bool) -> None:
    """It names both; a collection that names none searches title and text."""
    ours = {"analysis": CURRENT, **({"fields": noted} if noted is not None else {})}
    found = [str(gap) for gap in gaps(info(metadata={"rankstream": ours}), [ANALYSER])]
    assert found == ["the keyword leg searches title 2, and the configuration has title 1, text 1"] * differ


@pytest.mark.parametrize(
    ("made", "configured", "differences"),
    [
        ({}, {}, ""),
        ({"language": "german"}, {}, "language german, and the configuration has english"),
        ({}, {"accents": "fold"}, "accents keep, and the configuration has fold"),
        ({"languages": {"de": "german"}}, {}, "languages {'de': 'german'}, and the configuration has none"),
        (
            {"language": "none", "k": 2.0},
            {},
            "k 2.0, and the configuration has 1.2; language none, and the configuration has english",
        ),
    ],
)
def test_another_language_than_the_indexs_is_a_gap(
    made: dict[str, Any], configured: dict[str, Any], differences: str
) -> None:
    """Each parameter of the analyser that the terms were not made with, in one line, and the way to the other."""
    noted = collection_metadata(Bm25Settings.model_validate(made))
    needs = [Requirement("terms", (Bm25Settings.model_validate(configured), DEFAULT_FIELDS))]
    found = merge_gaps(gaps(info(metadata=noted), needs))
    line = f"the keyword leg analyses texts as the index was made: {differences}"
    assert [str(gap) for gap in found] == [line] * bool(differences)
    assert all(gap.kind in MADE and "rankstream reindex" in gap.cure and not gap.stops for gap in found)


@pytest.mark.parametrize(
    ("version", "old"),
    [
        ("1.18.2", True),
        ("1.9.0", True),
        ("1.18.0-dev", True),
        ("0.11", True),
        ("1.19.0", False),
        ("1.20.0-rc.1", False),
        ("2.0.0", False),
        ("unknown", False),
        ("", False),
        (None, False),
    ],
)
def test_a_server_of_an_earlier_version_is_a_gap(version: str | None, old: bool) -> None:
    """It names both versions; of one whose version is unknown nothing is said."""
    found = [(gap.severity, str(version) in gap.what and "1.19" in gap.what) for gap in find_server_gaps(version)]
    assert found == [(Severity.PARTIAL, True)] * old
