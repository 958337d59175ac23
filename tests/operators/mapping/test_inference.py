"""Inference: which field of somebody's documents is what."""

import random
from typing import Any, Final

import pytest

from operators.mapping.inference import infer
from operators.mapping.rows import read_row, rename_columns
from schemas.errors import InputError
from schemas.settings.delivery import DocumentSettings

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


def test_times_of_two_formats_are_the_version() -> None:
    """A system that was moved left its dates behind: the newest of two copies stays by them."""
    days = [("2026-12-16T08:26:00Z", "16.12.2026 08:26")[number % 2] for number in range(20)]
    mapping = infer([article(number, updated_at=day) for number, day in enumerate(days)], NOW)
    assert mapping.documents["formats"] == {"updated_at": ["iso_utc", "%d.%m.%Y %H:%M"]}
    settings = DocumentSettings.model_validate(mapping.documents)
    times = {read_row(article(number, updated_at=day), settings)["updated_at"] for number, day in enumerate(days)}
    assert times == {"2026-12-16T08:26:00.000Z"}


def test_a_field_of_which_a_part_is_times_is_told() -> None:
    """Nothing is ordered by it, and no newer copy replaces an older one."""
    days = ["2026-12-16", "03/04/2026"] * 10
    mapping = infer([article(number, changed=day) for number, day in enumerate(days)], NOW)
    assert "updated_at" not in mapping.roles
    said = "changed: days and months cannot be told apart, such as in '03/04/2026'"
    assert ("no times", said) in mapping.remarks


def variants(number: int, **more: Any) -> dict[str, Any]:
    """One of six sizes and colours of an article, with a price and a stock of its own."""
    size, colour = ["S", "M", "L"][number % 3], ["red", "green"][number % 6 // 3]
    row = {
        "id": f"N-{number}",
        "title": f"Coat {number // 6}",
        "text": f"A coat of {number // 6} layers, lined.",
        "z": size,
    }
    return {**row, "y": colour, "maker": f"m{number // 6 % 9}", "stock": number * 37 % 101, "price": number * 7, **more}


@pytest.mark.parametrize(
    ("documents", "read"),
    [
        ([variants(number) for number in range(120)], ["title", "z", "y", "text"]),
        ([variants(number, y="red") for number in range(120)], None),
        ([variants(number, z=36 + number % 6, y="red") for number in range(120)], ["title", "z", "text"]),
        ([*ARTICLES, *({**each, "a": 9000 + each["a"], "e": "copy"} for each in ARTICLES)], None),
        ([*ARTICLES, *({**each, "e": str(each["a"])} for each in ARTICLES)], None),
        ([article(number, z=["S", "M"][number % 2]) for number in range(40)], None),
        ([variants(number, serial=f"{number * 7919:06}", z="S", y="red") for number in range(120)], None),
    ],
    ids=[
        "sizes and colours",
        "copies in part",
        "sizes of shoes",
        "copies",
        "versions",
        "no equal texts",
        "serial numbers",
    ],
)
def test_what_tells_variants_apart_is_read(documents: list[dict[str, Any]], read: list[str] | None) -> None:
    """So they are no duplicates. Stocks and numbers that no other document has make no variants of copies."""
    assert infer(documents, NOW).qdrant.get("read_fields") == read
