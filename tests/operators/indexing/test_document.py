"""Documents as points: payload, vectors, and the order that lets no older version win."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.collections.analysers import Bm25
from operators.indexing.document import newest, watermark
from operators.indexing.point import deletable, not_newer, payload, point
from operators.query.backend_answers import Embedding
from operators.ranking.content import fingerprint
from schemas.document import WORDS
from schemas.settings.qdrant import Vectors
from tests.operators.indexing.documents import document
from tests.operators.samples import origin

BM25 = Bm25()


def test_a_payload_by_hand() -> None:
    """Fields under their names, times as RFC 3339, the tenant, and the index's own with an underscore."""
    made = document(
        title="Head",
        author={"name": "x"},
        empty=None,
        created_at=1_700_000_000.25,
        updated_at="2023-11-14T23:13:21+01:00",
        vector=[1.0, 0.0, 0.0],
    )
    assert payload(made) == {
        "id": "d",
        "title": "Head",
        "text": "some content",
        "author": {"name": "x"},
        "created_at": "2023-11-14T22:13:20.250Z",
        "updated_at": "2023-11-14T22:13:21.000Z",
        "namespace": "public",
        "destination": "default",
        "_version": 1_700_000_001_000,
        "_created": 1_700_000_000_250,
        "_fields": 7,
        "_content": fingerprint("Head\nsome content"),
        "_title": "Head",
        "_title_words": ["head"],
        "_text_words": ["content", "some"],
    }


def test_a_payload_has_the_words_of_each_column() -> None:
    """In order, each once, in lower case; none of a column without words."""
    made = payload(document(title="...", text="Some of SOME and a sister's"))
    assert made["_text_words"] == ["a", "and", "of", "s", "sister", "some"]
    assert "_title_words" not in made


def test_undated_documents_come_last() -> None:
    """Without `created_at` the order's key is 0: a record without the key would vanish from an ordered lookup."""
    assert payload(document())["_created"] == 0
    assert payload(document(created_at=16.051))["_created"] == 16_051


def test_a_document_without_text_has_no_content() -> None:
    """A vector alone has no fingerprint, so that it is nobody's duplicate, and no keyword terms."""
    made = document(text=None, vector=[1.0, 0.0, 0.0])
    assert not {"_content", *WORDS.values()} & payload(made).keys()
    assert set(point(made, Vectors(), BM25)["vector"]) == {"dense"}


def test_a_points_vectors() -> None:
    """The embedder's vectors go under the configured names, and a document's own vector in place of them."""
    embedding = Embedding(np.ones(3, np.float32), np.full((2, 3), 0.123456, np.float32))
    made = document()
    made.embedding = embedding
    vectors = point(made, Vectors(dense="v", sparse="s", tokens="t"), BM25)["vector"]
    assert set(vectors) == {"v", "s", "t"}
    assert vectors["v"] is embedding.vector
    assert vectors["t"] == pytest.approx(np.full((2, 3), 0.1235))
    terms = BM25.document("some content")
    assert vectors["s"] == {"indices": terms.indices, "values": terms.values}
    own = document(vector=[0.5, 0.5, 0.0])
    own.embedding = embedding
    assert point(own, Vectors(), BM25)["vector"]["dense"] == [0.5, 0.5, 0.0]
    assert set(point(made, Vectors(tokens=None), BM25)["vector"]) == {"dense", "bm25"}


def test_a_text_without_a_token_has_no_vector() -> None:
    """Neither one of zeros nor token vectors: it is found by what else it has."""
    made = document()
    made.embedding = Embedding(np.zeros(3, np.float32), np.zeros((0, 3), np.float32))
    assert set(point(made, Vectors(tokens="t"), BM25)["vector"]) == {"bm25"}


def test_a_payload_has_the_pieces_of_its_token_vectors() -> None:
    """Each once, under the index's own key, beside a `token_ids` of the document's; none where there are none."""
    made = document(token_ids="mine")
    made.embedding = Embedding(np.ones(3, np.float32), np.ones((4, 3), np.float32), (30, 4, 30, 12))
    assert (payload(made)["_token_ids"], payload(made)["token_ids"]) == ([4, 12, 30], "mine")
    made.embedding = Embedding(np.ones(3, np.float32))
    assert "_token_ids" not in payload(made)
    own = document(vector=[0.5, 0.5, 0.0])
    own.embedding = Embedding(np.ones(3, np.float32), np.ones((1, 3), np.float32), (4,))
    assert "_token_ids" not in payload(own)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4)), max_size=10))
def test_of_each_point_the_newest_event_is_kept(events: list[tuple[str, int]]) -> None:
    """One event a point, of the highest version, and of equal ones the last."""
    made = [document(place, id=id_, updated_at=version) for place, (id_, version) in enumerate(events)]
    kept = {one.event.id: one for one in newest(made)}
    assert len(kept) == len(newest(made)) == len({id_ for id_, _ in events})
    for id_, one in kept.items():
        highest = max(version for other, version in events if other == id_)
        last = max(place for place, event in enumerate(events) if event == (id_, highest))
        assert one.message.origin.offset == last


def test_one_id_in_two_tenants_is_two_points() -> None:
    """The same id in another namespace or destination replaces nothing."""
    assert len(newest([document(), document(namespace="n"), document(destination="other")])) == 3


def test_the_condition_of_a_write_by_hand() -> None:
    """Each point as old as its event or older, or without a version at all."""
    made = document(updated_at=5)
    condition = {
        "should": [
            {"must": [{"has_id": [made.point_id]}, {"key": "_version", "range": {"lte": 5000}}]},
            {"is_empty": {"key": "_version"}},
        ]
    }
    assert not_newer([made]) == condition
    assert deletable([made]) == [{"must": [{"has_id": [made.point_id]}, condition]}]


def test_a_watermark_by_hand() -> None:
    """Key collection, namespace and partition; value the offset; of one key a transaction sends the last."""
    record = watermark(document(41), "watermarks")
    assert (record.topic, record.key, record.value) == ("watermarks", b"documents|public|0", b"41")
    assert (record.origin, record.compacts) == (origin(41), True)
