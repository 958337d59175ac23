"""Searched fields: by their weights, in keyword expressions, and in the text that models read."""

from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from operators.clients.qdrant_edge.engine import EngineClient
from operators.clients.qdrant_edge.shards import Engine
from operators.collections.analysers import CURRENT, Bm25
from operators.collections.catalogue import Catalogue
from operators.collections.making import ensure
from operators.collections.notes import collection_metadata
from operators.indexing.point import payload, point
from operators.query.backend_answers import Hits
from operators.query.expression_conditions import keyword_conditions
from operators.ranking.content import content, field_texts, fingerprint
from operators.ranking.marks import find_matches
from operators.runtime.event_loop import EventLoopThread, Wakeup
from operators.text.expression import parse
from schemas.settings import QdrantSettings
from schemas.settings.qdrant import Bm25Settings, Vectors
from tests.operators.indexing.documents import decoder, document, read
from tests.operators.samples import DIMENSION, message

FIELDS: Final = {"title": 2.0, "text": 1.0, "sku": 5.0, "attributes.brand": 2.0}
SHOP: Final[list[dict[str, Any]]] = [
    {"id": "wh", "title": "Headphones", "text": "Quiet ones.", "sku": "WH-1000XM5", "attributes": {"brand": "Sony"}},
    {"id": "qc", "title": "Headphones", "text": "Others than Sony's.", "sku": ["QC 45", "QC 35"], "attributes": []},
    {"id": "tv", "title": "Television", "text": "Big.", "attributes": [{"brand": "Sony"}, {"brand": "Blue Lion"}]},
]

WORDS = st.lists(st.sampled_from(["lantern", "blue", "WH-1000XM5", "copper", "12"]), max_size=5).map(" ".join)


def bm25(fields: dict[str, float]) -> Bm25:
    """The analyser of these fields."""
    return Bm25(analysis=CURRENT, fields=fields)


def weights(found: Any) -> dict[int, float]:
    """Terms and their weights."""
    return dict(zip(found.indices, found.values, strict=True))


@given(WORDS, WORDS, WORDS)
def test_a_weight_is_a_number_of_repetitions(title: str, text: str, brand: str) -> None:
    """A field of weight 3 is one that stands there three times: the frequency over all fields is saturated once."""
    made = {"title": title, "text": text, "attributes": {"brand": brand}}
    found = bm25({"title": 3.0, "text": 1.0, "attributes.brand": 2.0}).payload(made)[0]
    repeated = "\n".join([*3 * [title], text, *2 * [brand]])
    assert weights(found) == pytest.approx(weights(bm25(FIELDS).document(repeated)), rel=1e-6)


@given(WORDS, WORDS)
def test_title_and_text_alike_are_one_text(title: str, text: str) -> None:
    """The default fields have the terms and weights that a collection had without them."""
    made = {"title": title, "text": text, "sku": "other"}
    joined = "\n".join(each for each in (title, text) if each)
    for fields in ({"title": 1.0, "text": 1.0}, {"text": 1.0, "title": 1.0}):
        assert weights(bm25(fields).payload(made)[0]) == pytest.approx(weights(bm25(fields).document(joined)), rel=1e-6)


def test_the_texts_of_a_field_by_hand() -> None:
    """Paths go through objects and arrays, each element counts, numbers are texts; truth values and objects are not."""
    made = {"a": "x", "b": {"c": ["y", 7, True, None, {"d": "z"}]}, "e": [{"f": "p"}, {"f": ["q", 1.5]}, "r"], "g": ""}
    assert field_texts(made, "a") == ["x"]
    assert field_texts(made, "b.c") == ["y", "7"]
    assert field_texts(made, "b.c.d") == ["z"]
    assert field_texts(made, "e.f") == ["p", "q", "1.5"]
    assert field_texts(made, "g") == field_texts(made, "a.x") == field_texts(made, "h") == []


def test_a_payload_has_the_words_of_searched_fields() -> None:
    """Under the index's own keys: the field's own key may have another index; title and text have no copy."""
    made = payload(document(**SHOP[2]), columns=tuple(FIELDS))
    assert made["_attributes_brand_texts"] == ["Sony", "Blue Lion"]
    assert made["_attributes_brand_words"] == ["blue", "lion", "sony"]
    assert made["_text_words"] == ["big"]
    assert not {"_sku_texts", "_sku_words", "_text_texts", "_read"} & made.keys()


def test_a_point_marks_the_fields_of_its_terms() -> None:
    """Coverage finds each word, its parts and its joined form in the fields that have them."""
    analyser = bm25(FIELDS)
    made = point(document(**SHOP[0]), Vectors(), analyser)["payload"]
    found = find_matches(analyser.words("sony wh-1000xm5 quiet headphones"), {"d": made}, analyser.columns)
    assert found is not None
    assert {word: each.get("d") for word, each in found.fields.items()} == {
        "sony": ("attributes.brand",),
        "wh": ("sku",),
        "1000xm5": ("sku",),
        "1000": ("sku",),
        "xm": ("sku",),
        "5": ("sku",),
        "quiet": ("text",),
        "headphones": ("title",),
        "wh1000xm5": ("sku",),
    }


def test_models_read_the_fields_that_are_configured() -> None:
    """In their order, in the embedder's text, in the fingerprint, and in what the reranker reads of the payload."""
    made = read(decoder(read=("title", "attributes.brand", "text")), message({**SHOP[2]}, 0))
    assert made.content == "Television\nSony\nBlue Lion\nBig."
    stored = payload(made)
    assert stored["_content"] == fingerprint(made.content)
    assert content(stored) == made.content
    plain = document(**SHOP[2])
    assert plain.content == content(payload(plain)) == "Television\nBig."


MATCHES: Final = {
    '"sony"': {"wh", "qc", "tv"},
    "brand:sony": {"wh", "tv"},
    "Sku:qc*": {"qc"},
    'sku:"qc 35"': {"qc"},
    'sku:"45 qc"': set(),
    'brand:"blue lion"': {"tv"},
    "headphones NOT brand:sony": {"qc"},
    "text:sony": {"qc"},
}


def test_expressions_look_in_searched_fields(tmp_path: Path) -> None:
    """Each field is a column by its name, or the one that is configured; without a column all of them are."""
    columns = {"title": "title", "text": "text", "brand": "attributes.brand"}
    given = {"search_fields": FIELDS, "columns": columns, "indexes": {"sku": "keyword"}}
    settings = QdrantSettings.model_validate({"path": tmp_path, "dimension": DIMENSION, **given})
    calls = EventLoopThread(Wakeup())
    with Engine(tmp_path) as engine:
        client = EngineClient(engine)
        try:
            calls.run(ensure(client, settings, 60), 60)
            catalogue = Catalogue(client, settings)
            calls.run(catalogue.refresh(60), 60)
            analyser = catalogue.analyser("documents")
            assert analyser.fields == FIELDS
            made = [document(**each) for each in SHOP]
            points = [point(each, settings.vectors, analyser) for each in made]
            calls.run(client.upsert("documents", points, timeout=60), 60)
            names = {each.point_id: each.event.id for each in made}
            for text, wanted in MATCHES.items():
                expression = parse(text, settings.column_names).expression
                assert expression is not None, text
                where = {"must": [keyword_conditions(expression, analyser.columns, {})]}
                [hits] = calls.run(client.query_batch("documents", [{"filter": where, "limit": 9}], timeout=60), 60)
                assert isinstance(hits, Hits), text
                assert {names[id_] for id_ in hits.ids} == wanted, text
            info = calls.run(client.collection_info("documents", timeout=60), 60)
            assert info.indexes["sku"]["data_type"] == "keyword"
            assert info.indexes["_sku_texts"]["data_type"] == "text"
        finally:
            calls.close()


def test_a_column_that_the_collection_lacks_matches_nothing() -> None:
    """A collection that was made without the field has no index of it to look in."""
    expression = parse("sku:qc OR sea", {"sku": "sku"}).expression
    assert expression is not None
    found = keyword_conditions(expression, ("title", "text"), {})
    assert {"has_id": []} in found["should"]
    assert "_sku_texts" not in str(found)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"search_fields": {"_sku": 1}}, "search_fields: _sku: no name of a field"),
        ({"read_fields": ["a b"]}, "read_fields: a b: no name of a field"),
        ({"search_fields": {"a[].b": 1}}, "no name of a field; of the objects in a list it is a.b"),
        ({"search_fields": {"sku": 0}}, "search_fields"),
        ({"search_fields": {}}, "search_fields"),
        ({"search_fields": dict.fromkeys("abcdefghijk", 1)}, "search_fields"),
        ({"search_fields": {"a.b": 1, "a_b": 1}}, "search_fields: two names differ in points and underscores only"),
        ({"search_fields": {"Title": 1, "title": 1}, "columns": {}}, "columns: two names differ in their case only"),
        ({"search_fields": {"sku": 1}, "fields": {"text": "body"}}, "search_fields: the terms of collections that"),
        ({"columns": {"part": "sku"}}, "columns: part: not one of search_fields"),
    ],
)
def test_what_the_configuration_of_fields_must_be(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    """Names of fields with positive weights, ten at most, told apart in any case and in the index's keys."""
    with pytest.raises(ValidationError, match=problem):
        QdrantSettings.model_validate({"path": tmp_path, "dimension": DIMENSION, **changes})


def test_metadata_name_the_fields() -> None:
    """A collection keeps them."""
    assert collection_metadata(Bm25Settings(), None, FIELDS)["rankstream"]["fields"] == FIELDS


def test_a_field_has_the_words_of_its_characters() -> None:
    """An accent may be a character of its own, as in names of files: words are those that a query has, in NFC."""
    written, composed = "Mu\u0308ller cafe\u0301", "M\u00fcller caf\u00e9"
    assert field_texts({"brand": [written, 7]}, "brand") == [composed, "7"]
    fields = {"title": 1.0, "attributes.brand": 1.0}
    one, other = ({"title": "", "attributes": {"brand": text}} for text in (written, composed))
    assert bm25(fields).payload(one) == bm25(fields).payload(other)
