"""Inference: which field of somebody's documents is what."""

import random
from typing import Any, Final

import pytest

from operators.mapping.inference import infer
from operators.mapping.rows import rename_columns
from schemas.errors import InputError

NOW: Final = 1_760_000_000.0
RANDOM: Final = random.Random(3)
WORDS: Final = ("lamp", "door", "router", "printer", "cable", "button", "light", "sheet", "water", "garden", "stone")


def words(count: int) -> str:
    """So many words."""
    return " ".join(RANDOM.choice(WORDS) for _ in range(count))


def article(number: int, **more: Any) -> dict[str, Any]:
    """An article under names that say nothing."""
    head = f"{words(3)} {number}"
    return {
        "a": 4000 + 7 * number,
        "b": head,
        "c": f"The {head} is here. {words(30)}",
        "d": ["en", "de"][number % 2],
        **more,
    }


def chosen(documents: list[dict[str, Any]]) -> dict[str, str]:
    """The columns by role."""
    return {role: each.column for role, each in infer(documents, NOW).roles.items()}


ARTICLES: Final = [article(number) for number in range(40)]


def test_values_decide_without_names() -> None:
    """The id is unique, the text is long, the title is short and repeated, and languages have codes."""
    assert chosen(ARTICLES) == {"id": "a", "title": "b", "text": "c", "lang": "d"}
    assert infer(ARTICLES, NOW).documents["ids"] == "integer"


def test_identifiers_are_found_by_their_shape() -> None:
    """Part numbers weigh as much as a title; sizes, codes of currencies and counters are none."""
    documents = [
        article(
            number, p=f"LF-{RANDOM.randint(1000, 9999)}", q="EUR", r=f"{number % 5} mm", s=number % 7, t=number % 9 / 2
        )
        for number in range(40)
    ]
    mapping = infer(documents, NOW)
    assert mapping.qdrant["search_fields"] == {"title": 2, "text": 1, "p": 2}
    assert {name: mapping.qdrant["indexes"][name] for name in "rst"} == {"r": "keyword", "s": "integer", "t": "float"}


def test_times_are_ordered_by_their_values() -> None:
    """The earlier one is the creation's."""
    documents = [
        article(number, x=1_700_000_000_000 + 86_400_000 * number, w=1_690_000_000 + 86_400 * 5 * number)
        for number in range(20)
    ]
    roles = chosen(documents)
    assert (roles["created_at"], roles["updated_at"]) == ("w", "x")
    assert infer(documents, NOW).documents["formats"] == {"updated_at": "unix_ms"}


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("Veröffentlicht", "Geändert"),
        ("VEROEFFENTLICHT", "GEAENDERT"),
        ("créé_le", "modifié_le"),
        ("cree_le", "modifie_le"),
    ],
)
def test_times_are_known_by_their_names(first: str, last: str) -> None:
    """With accents and without them, against the order of their values."""
    documents = [
        article(number, **{last: 1_690_000_000 + 86_400 * number, first: 1_700_000_000 + 86_400 * number})
        for number in range(20)
    ]
    roles = chosen(documents)
    assert [roles["created_at"], roles["updated_at"]] == [first, last]


def test_a_field_that_means_something_else_has_another_name() -> None:
    """So no document is refused, or hidden as one of an unknown tier."""
    documents = [
        article(number, priority=number % 3, classification="fiction", _rev=f"{number}-x") for number in range(20)
    ]
    columns = infer(documents, NOW).documents["columns"]
    assert {columns[name] for name in ("own_priority", "own_classification", "rev")} == {
        "priority",
        "classification",
        "_rev",
    }
    event = rename_columns(documents[0], columns)
    assert not {"priority", "classification", "_rev"} & event.keys()


def test_a_namespace_needs_its_name() -> None:
    """A field with few values alone would hide documents from queries."""
    documents = [article(number, group=f"g{number % 2}", tenant=f"t{number % 2}") for number in range(20)]
    assert chosen(documents)["namespace"] == "tenant"
    assert "namespace" not in chosen([article(number, group=f"g{number % 2}") for number in range(20)])


def test_rows_of_debezium_are_seen_behind_their_envelope() -> None:
    """Flattened or not; deleted rows count for nothing."""
    rows = [{"before": None, "after": each, "op": "c", "source": {"ts_ms": 5}} for each in ARTICLES]
    gone = {"before": ARTICLES[0], "after": None, "op": "d", "source": {"ts_ms": 6}}
    mapping = infer([{"schema": {}, "payload": row} for row in [*rows, gone]], NOW)
    assert (mapping.documents["envelope"], mapping.total, mapping.roles["id"].column) == (
        "debezium",
        len(ARTICLES),
        "a",
    )
    assert infer([{**each, "__op": "c", "__ts_ms": 5} for each in ARTICLES], NOW).documents["envelope"] == "debezium"


def test_what_is_given_is_not_decided() -> None:
    """A role may have a field, or none; an unknown field is named."""
    mapping = infer(ARTICLES, NOW, given={"title": "", "id": "b"})
    assert mapping.roles["id"].column == "b"
    assert "title" not in mapping.roles
    with pytest.raises(InputError, match="z: no document has this field"):
        infer(ARTICLES, NOW, given={"id": "z"})


def test_without_an_id_the_content_names_a_document() -> None:
    """Equal documents are one."""
    documents = [{"c": f"{words(30)}."} for _ in range(20)]
    assert (infer(documents, NOW).documents["ids"], chosen(documents)) == ("content", {"text": "c"})


@pytest.mark.parametrize(
    ("text", "language"),
    [("Das ist ein Haus und wir sind nicht da.", "german"), ("Le chat est dans la maison avec vous.", "french")],
)
def test_the_language_of_texts_is_that_of_all(text: str, language: str) -> None:
    """If no field names it."""
    documents = [{"i": number, "c": f"{text} {text} {number}"} for number in range(10)]
    assert infer(documents, NOW).qdrant["bm25"] == {"language": language}
