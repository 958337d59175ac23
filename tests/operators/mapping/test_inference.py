"""Inference: which field of somebody's documents is what."""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from operators.mapping.inference import infer
from operators.mapping.profile import FieldProfile
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


def test_an_id_is_never_parsed() -> None:
    """Ids that are times by their form come back as they are, whichever field is the time of creation."""
    stamps = (1_700_000_000 + 7_000 * number for number in range(40))
    documents = [{**article(number), "a": f"{stamp}.284185", "w": stamp} for number, stamp in enumerate(stamps)]
    for created in ("a", "w"):
        mapping = infer(documents, NOW, given={"id": "a", "created_at": created})
        row = read_row(documents[0], DocumentSettings.model_validate(mapping.documents))
        assert row["id"] == documents[0]["a"]


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
    with pytest.raises(InputError, match="z: no such field; there are"):
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


def test_the_commonest_language_of_several_is_that_of_all() -> None:
    """Stems of one serve more than none."""
    texts = ["Das ist ein Haus und wir sind nicht da."] * 12 + ["This is the house and you are not in it."] * 7
    documents = [
        {"i": n, "c": f"{text} {n}"} for n, text in enumerate([*texts, "Le chat est dans la maison avec vous."])
    ]
    assert infer(documents, NOW).qdrant["bm25"] == {"language": "german"}


def test_a_language_that_few_documents_name_is_not_that_of_all() -> None:
    """The texts of the others say theirs."""
    english = [{"i": n, "c": f"This is the house and you are not in it. {n}"} for n in range(12)]
    german = [{"i": n, "c": f"Das ist ein Haus und wir sind nicht da. {n}", "lang": "de"} for n in range(20, 24)]
    assert infer([*english, *german], NOW).qdrant["bm25"] == {"languages": {"de": "german"}}


@pytest.mark.parametrize(
    ("more", "index", "columns", "formats"),
    [
        (
            {"Breitengrad": "52,3{}", "Längengrad": "13,0{}"},
            {"location": "geo"},
            {"location.lat": "Breitengrad", "location.lon": "Längengrad"},
            {"location.lat": "decimal_comma", "location.lon": "decimal_comma"},
        ),
        ({"place": {"lat": "52.3{}", "lon": "13.0{}", "name": "x"}}, {"place": "geo"}, {}, None),
        (
            {"shop": {"latitude": 52.5, "lng": 13.4}, "location": "Berlin"},
            {"own_location": "geo"},
            {"own_location.lat": "shop.latitude", "own_location.lon": "shop.lng"},
            {},
        ),
        (
            {"from_lat": 52.5, "from_lon": 13.4, "to_lat": 48.1, "to_lon": 11.5},
            {"from_location": "geo", "to_location": "geo"},
            {"from_location.lat": "from_lat", "to_location.lon": "to_lon"},
            {},
        ),
        ({"lat": 252.5, "lon": 13.4}, {}, {}, {}),
        ({"latency": 5, "long": 13.4}, {}, {}, {}),
    ],
    ids=["columns", "an object", "an object of other names", "two points", "no degrees", "no pair"],
)
def test_two_columns_of_degrees_are_a_point(
    more: dict[str, Any], index: dict[str, str], columns: dict[str, str], formats: dict[str, str] | None
) -> None:
    """Those of one object, or of one beginning of their names; an object that is a point already keeps its names."""
    documents = [article(number, **fill(more, number)) for number in range(20)]
    mapping = infer(documents, NOW)
    indexes = mapping.qdrant.get("indexes", {})
    assert {name: kind for name, kind in indexes.items() if kind == "geo"} == index
    assert columns.items() <= mapping.documents["columns"].items()
    assert not [name for name in indexes if name.startswith(("Breiten", "place.", "from_lat", "shop."))]
    if formats is not None:
        assert mapping.documents.get("formats", {}) == formats


def fill(value: Any, number: int) -> Any:
    """The value with the number in its texts."""
    if isinstance(value, dict):
        return {name: fill(each, number) for name, each in value.items()}
    return value.format(number) if isinstance(value, str) else value


def test_lists_in_a_text_are_split() -> None:
    """Each value is one to filter by, and so are those of objects in a list."""
    kinds = ["vpn", "tls", "dns"]
    documents = [
        article(
            n, skills="|".join(kinds[: 1 + n % 3]), tags=[{"label": kinds[n % 3], "weight": n % 2, "at": "31.12.2024"}]
        )
        for n in range(20)
    ]
    mapping = infer(documents, NOW)
    assert mapping.documents["formats"] == {"skills": "|"}
    assert mapping.qdrant["indexes"] == {"skills": "keyword", "tags[].label": "keyword", "tags[].weight": "integer"}
    assert read_row(documents[2], DocumentSettings.model_validate(mapping.documents))["skills"] == kinds
    assert not [said for _, said in mapping.remarks if "tags" in said]


def test_a_column_may_have_both_markups() -> None:
    """HTML in some texts, and Markdown in many of the others."""
    texts = ["<p>The router {} has a lamp.</p>", "## Lamps\n\nThe **router** {} has a [lamp](x) at its back."]
    mapping = infer([{"i": n, "c": f"{texts[n % 2].format(n)} {words(9)}"} for n in range(20)], NOW)
    assert (mapping.documents["html"], mapping.documents["markdown"]) == ({"fields": ["text"]}, {"fields": ["text"]})


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
        ([variants(number) for number in range(120)], ["title", "y", "z", "text"]),
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


def test_models_read_the_words_that_documents_share() -> None:
    """Two kinds are enough; codes, ids and what each document has for itself are not read."""
    kinds = {"deal": ["rent", "sale"], "city": ["Leeds", "Palma"], "area_id": ["ABCD", "CDEF"], "rank": "AB"}
    shared = [{name: each[n % 2] for name, each in kinds.items()} for n in range(60)]
    found = infer([article(n, agent=f"{words(2)} {n}", **each) for n, each in enumerate(shared)], NOW).qdrant
    assert set(found["read_fields"]) == {"title", "deal", "city", "text"}
    assert {"deal", "city"} <= found["search_fields"].keys()


@pytest.mark.parametrize(
    ("usual", "odd", "kind", "said"),
    [
        (lambda n: 15 + n % 30, "ca. 20", "number", "z: number, except 1 of 100 values, such as 'ca. 20'"),
        (lambda n: f"{15 + n % 30}", "ca. 20", "number", "z: number, except 1 of 100 values, such as 'ca. 20'"),
        (lambda n: n % 2 == 0, "unknown", "boolean", "z: boolean, except 1 of 100 values, such as 'unknown'"),
        (
            lambda n: f"2024-01-{n % 28 + 1:02}",
            "2024-13-45",
            "time",
            "time, except 1 of 100 values, such as '2024-13-45'",
        ),
        (lambda n: 1_700_000_000_000 + 86_400_000 * n, "n/a", "time", "time, except 1 of 100 values, such as 'n/a'"),
        (lambda n: f"{n % 28 + 1:02}.01.2024", "n/a", "time", "time, except 1 of 100 values, such as 'n/a'"),
        (lambda n: f"{words(12)}.", 5, "prose", "z: prose, except 1 of 100 values, such as 5"),
        (lambda n: 4711 + n, "99003x", "number", "z: number, except 1 of 100 values, such as '99003x'"),
    ],
    ids=["numbers", "texts of numbers", "booleans", "days", "milliseconds", "German days", "texts", "ids"],
)
def test_nearly_all_values_decide(usual: Callable[[int], Any], odd: Any, kind: str, said: str) -> None:
    """One odd value among hundreds changes nothing of its field, and is told."""
    clean, one = ([article(n, z=usual(n)) for n in range(count)] for count in (100, 99))
    without, mapping = infer(clean, NOW), infer([*one, article(100, z=odd)], NOW)
    assert {role: each.column for role, each in mapping.roles.items()} == {
        role: each.column for role, each in without.roles.items()
    }
    for each in ("search_fields", "indexes"):
        assert mapping.qdrant.get(each) == without.qdrant.get(each)
    assert profile_of(mapping.profiles, "z").kind.name == kind
    assert [remark for part, remark in mapping.remarks if part == "odd" and remark.endswith(said)]
    assert not [part for part, _ in without.remarks if part == "odd"]


def profile_of(profiles: Sequence[FieldProfile], column: str) -> FieldProfile:
    """The field of this column."""
    [found] = (each for each in profiles if each.column == column)
    return found


def test_a_tenth_of_other_values_is_not_odd() -> None:
    """Sizes of letters and numbers are texts."""
    documents = [article(n, z=("M" if n % 10 == 0 else f"{36 + n % 8}")) for n in range(100)]
    assert infer(documents, NOW).qdrant["indexes"]["z"] == "keyword"


@pytest.mark.parametrize(
    ("change", "ids"),
    [
        ({"a": "99003x"}, None),
        ({"a": None}, "content"),
        ({"a": None, "b": "", "c": ""}, "integer"),
    ],
    ids=["a text", "none", "nothing at all"],
)
def test_an_odd_row_gives_no_other_id(change: dict[str, Any], ids: str | None) -> None:
    """No document is lost: ids of both kinds are texts, and where few have none their content gives it."""
    documents = [*(article(number) for number in range(99)), article(99) | change]
    mapping = infer(documents, NOW)
    assert (mapping.roles["id"].column, mapping.documents.get("ids")) == ("a", ids)
    read = [read_row(each, DocumentSettings.model_validate(mapping.documents)).get("id") for each in documents]
    assert read[0] == "4000"
    assert [*map(type, read)].count(str) == len({*read}) - (None in read)
    assert (None in read) == (ids == "integer")


def test_a_document_with_an_odd_time_is_taken_without_it() -> None:
    """Of a format that says how times are written; without one it is refused, as a producer's event is."""
    documents = [article(n, created=f"2024-01-{n % 28 + 1:02} 10:00", w="x") for n in range(99)]
    documents.append(article(99, created="n/a"))
    mapping = infer(documents, NOW)
    settings = DocumentSettings.model_validate(mapping.documents)
    assert mapping.roles["created_at"].column == "created"
    assert "created_at" not in read_row(documents[-1], settings)
    assert read_row(documents[0], settings)["created_at"] == "2024-01-01T10:00:00.000Z"
    strict = settings.model_copy(update={"formats": {}})
    assert read_row(documents[-1], strict)["created_at"] == "n/a"


def test_words_in_lists_of_objects_are_searched() -> None:
    """As those of other fields, by the path that configurations have for it; units and addresses are not."""
    names = ["fennel", "carrot", "walnut", "apple", "butter", "flour", "cream"]
    documents = [
        article(
            n,
            parts=[
                {"name": names[(n + each) % 7], "unit": ["g", "ml"][each], "see": f"https://a.example/{n}"}
                for each in range(2)
            ],
            slug=f"{names[n % 7]}-{names[n % 5]}-{RANDOM.choice(WORDS)}-{n}",
            time=f"PT{5 + n % 9}M",
        )
        for n in range(40)
    ]
    mapping = infer(documents, NOW)
    assert mapping.qdrant["search_fields"] == {"title": 2, "text": 1, "parts.name": 1}
    assert {name: mapping.qdrant["indexes"][name] for name in ("parts[].name", "parts[].unit", "time")} == {
        "parts[].name": "keyword",
        "parts[].unit": "keyword",
        "time": "keyword",
    }


@pytest.mark.parametrize("as_written", [int, str])
def test_long_numbers_of_one_length_are_identifiers(as_written: Callable[[int], Any]) -> None:
    """ISBNs of one publisher follow one another closely; counts and years are numbers."""
    documents = [
        article(n, isbn=as_written(9_783_161_484_100 + 9 * n), seen=10_000 + n, year=2000 + n) for n in range(40)
    ]
    mapping = infer(documents, NOW)
    assert mapping.qdrant["search_fields"]["isbn"] == 2
    assert mapping.qdrant["indexes"]["isbn"] == "keyword"
    assert [profile_of(mapping.profiles, name).kind.name for name in ("seen", "year")] == ["number", "number"]


@pytest.mark.parametrize(
    ("word", "folded"),
    [("café", True), ("cafe\u0301", True), ("smørrebrød", True), ("Müßige Öfen", False), ("3 × 4", False)],
)
def test_accents_are_folded_where_texts_have_some(word: str, folded: bool) -> None:
    """Umlauts have two-letter forms anyway."""
    documents = [article(number) for number in range(39)] + [{**article(39), "c": f"{word} {words(30)}"}]
    assert infer(documents, NOW).qdrant.get("bm25", {}).get("accents") == ("fold" if folded else None)


def test_ids_of_numbers_and_texts_are_texts() -> None:
    """Of two systems, say."""
    documents = [article(n) | ({"a": f"N{n}"} if n % 2 else {}) for n in range(40)]
    mapping = infer(documents, NOW)
    assert (mapping.roles["id"].column, mapping.documents.get("ids")) == ("a", None)
