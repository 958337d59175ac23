"""The stage `wishes`: documents' own fields and texts decide; by hand, and properties."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.query.returned import hide
from operators.ranking.pipeline import Ranked, first_phase
from operators.ranking.run import Facts, Matches
from operators.ranking.wishes import FAILS, FITS, UNKNOWN
from operators.text.wishes import read_wishes
from schemas.query import Exclusion, Limit, Order, Wish
from schemas.recipes import SHIPPED, Recipe
from schemas.recipes.stages import Wishes
from tests.operators.ranking.payloads import explained
from tests.operators.ranking.pools import ids, keyword, recipe
from tests.operators.ranking.recompute import recompute

STAGE: Final = recipe("keyword", "wishes")
NOW: Final = 1_786_525_200.0
"""Wednesday, 12 August 2026."""


def judge(
    text: str, documents: Mapping[str, Mapping[str, Any]], recipe: Recipe = STAGE, **facts: Any
) -> tuple[Ranked, list[float]]:
    """The documents, all of score 2, ranked by the wishes of a text, and what each fails, in the documents' order."""
    rest, wishes = read_wishes(text, now=NOW)
    given = {"text": rest, "understood": wishes, "explain": True, **facts}
    assert given["understood"], text
    ranked = first_phase(recipe, [keyword(*((id_, 2.0) for id_ in documents), payloads=documents)], Facts(**given))
    steps = {id_: explained(ranked, id_)["stages"][-1]["values"]["fails"] for id_ in documents}
    return ranked, [steps[id_] for id_ in documents]


def fails(text: str, *documents: Any, **facts: Any) -> list[float]:
    """The wishes that each document fails; one that is a text has it as its title."""
    named = {str(at): {"title": each} if isinstance(each, str) else each for at, each in enumerate(documents)}
    return judge(text, named, **facts)[1]


def field_of(text: str, *documents: Mapping[str, Any]) -> str | None:
    """The field by which a limit is judged."""
    ranked, _ = judge(text, {str(at): each for at, each in enumerate(documents)})
    (wish,) = ranked.run.understood or ()
    assert isinstance(wish, Limit | Order)
    return wish.field


LIMITS: Final[list[tuple[str, list[Any], list[float]]]] = [
    ("lamp under 100 euro", [{"price": 99.5}, {"price": 100}, {"title": "Lamp"}], [0, 1, 0.5]),
    ("lamp under 100 euro", [{"price": 80, "currency": "USD"}, {"price": 80, "currency": "EUR"}], [0.5, 0]),
    ("lamp under 100 euro", [{"price_eur": "79,90"}, {"price_eur": "1.079,00"}], [0, 1]),
    ("lamp under 100 euro", [{"offer": {"price": 80, "currency": "EUR"}}, {"offer": {"price": 120}}], [0, 1]),
    ("lamp under 100 euro", [{"preis": 80, "stock": 5}, {"preis": 120, "stock": 500}], [0, 1]),
    ("lamp under 100 euro", ["Lamp, 80 euro", "Lamp for €120", "Lamp 100 cm"], [0, 1, 0.5]),
    ("hall for more than 100 people", [{"seats": 180}, {"seats": 40}, {"capacity": 120}], [0, 1, 0]),
    ("lamp under 50", [{"price": 30, "watt": 60}, {"price": 70, "watt": 20}], [0, 1]),
    (
        "laptop with at least 16 GB of memory",
        [{"ram_gb": 16, "storage_gb": 8}, {"ram_gb": 8, "storage_gb": 512}],
        [0, 1],
    ),
    ("laptop with at least 16 GB of memory", [{"ram": "16GB"}, {"ram": "8 GB"}, {"ram": "32768 MB"}], [0, 1, 0]),
    ("laptop with at least 1 TB storage", [{"ramGb": 16, "storageGb": 1000}, {"ramGb": 32, "storageGb": 512}], [0, 1]),
    ("shelf wider than 50 cm", [{"width_cm": 62, "height_cm": 20}, {"width_cm": 40, "height_cm": 90}], [0, 1]),
    ("shelf wider than 50 cm", [{"width_mm": 620}, {"width_mm": 400}], [0, 1]),
    ("shelf wider than 50 cm", [{"breite": "0,62 m"}, {"breite": "40 cm"}], [0, 1]),
    ("shelf wider than 50 cm", ["Shelf, 62 cm wide, 20 cm deep", "Shelf, 40 cm wide, 90 cm high"], [0, 1]),
    ("shelf wider than 50 cm", [{"dimensions": {"width_cm": 62}}, {"dimensions": {"width_cm": 40}}], [0, 1]),
    ("étagère de moins de 50 cm de large", [{"largeur_cm": 40}, {"largeur_cm": 60}], [0, 1]),
    ("backpack over 30 litres", [{"volume_l": 35}, {"volume_l": 30}, {"volume": 20}], [0, 1, 0.5]),
    ("boots size 42", [{"size": "42"}, {"size": 43}, {"size": ["41", "42"]}, {"size": "42.5"}], [0, 1, 0, 1]),
    ("boots size 42", ["Boots, brown, size 42", "Boots, size 43", "Boots"], [0, 1, 0.5]),
    ("Kleid Größe L", [{"groesse": "l"}, {"size": "L"}, {"size": "XL"}, {"size": "M, L"}], [0, 0, 1, 0]),
    ("Kleid Größe L", [{"Größe": "L"}, {"Größe": "XL"}, {"Größe_EU": "L"}, {"größeEU": "XL"}], [0, 1, 0, 1]),
    ("Kleid Größe L", [{"GRÖSSE": "L"}, {"Gro\u0308ße": "XL"}, {"Schuhgröße": "L"}], [0, 1, 0]),
    ("Schuhe Größe 42", [{"schuhgröße": "42"}, {"schuhgröße": "43"}], [0, 1]),
    ("Brett unter 50 cm Länge", [{"Länge": "40 cm"}, {"Länge": "60 cm"}, {"Breite": 40}], [0, 1, 0.5]),
    ("Regal unter 2 m Höhe", [{"Höhe_cm": 180}, {"Höhe_cm": 220}, {"Breite_cm": 80}], [0, 1, 0.5]),
    ("Rad unter 10 kg", [{"Gewicht": "9 kg"}, {"Gewicht": "12 kg"}], [0, 1]),
    ("lampe moins de 50 euros", [{"Prix": 40}, {"Prix": 60}], [0, 1]),
    ("vin après 2015", [{"Année": 2018}, {"Année": 2012}], [0, 1]),
    # No field is called a size: then it counts as a word does.
    ("Kleid Größe L", [{"konf": "L"}, {"konf": "XL"}, {"title": "Kleid L rot"}, {"konf": "M, L"}], [0, 0.5, 0, 0]),
    ("boots size 42", [{"konf": "42"}, {"konf": "4242"}, {"stock": 42}], [0, 0.5, 0.5]),
    ("boots size 42", [{"konf": "41"}, {"stock": 42}, {"title": "Boots"}], [0, 0, 0]),
    ("chaussures pointure 38", [{"pointure": 38}, {"pointure": 39}], [0, 1]),
    ("board game released after 2020", ["Published in 2022", "Published in 2020", "Bestseller"], [0, 1, 0.5]),
    (
        "board game released after 2020",
        [
            {"text": "Published in 2016.", "created_at": "2023-01-01T00:00:00Z"},
            {"text": "Published in 2022.", "created_at": "2019-01-01T00:00:00Z"},
        ],
        [1, 0],
    ),
    ("book published after 2020", ["Out on 2022-05-01.", "Since 3.4.2019", "From 2021 published"], [0, 1, 0]),
    ("book newer than 2020", [{"released": "01.06.2021"}, {"released": "1.6.2020"}], [0, 1]),
    ("puzzle from before 1990", ["LF-1916, 2000 pieces", "Made in 1985, 500 pieces"], [0.5, 0]),
    ("battery under 20", [{"price": 15}, {"price": 25, "battery_mah": 10}], [0, 1]),
    ("camera newer than 2020", [{"release_date": "2021-03-04"}, {"release_date": "2020-12-31"}], [0, 1]),
    ("camera newer than 2020", [{"year": 2021}, {"year": 2019}, {"year": "2022"}], [0, 1, 0]),
    ("report from 2021 onwards", [{"created_at": "2021-01-01T00:00:00Z"}, {"created_at": 1_500_000_000}], [0, 1]),
    (
        "tickets created after 2026-06-01",
        [{"created_at": f"2026-{each}Z"} for each in ("05-31T23:59:59", "06-01T23:59:59", "06-02T00:00:00")],
        [1, 1, 0],
    ),
    ("tickets created until 2026-06", [{"created_at": 1_782_863_999}, {"created_at": 1_782_864_000}], [0, 1]),
    ("tickets created after 2026-06-01", [{"created_at": "2026-06-02T01:00:00+02:00"}, {"title": "x"}], [1, 0.5]),
    ("tickets before March 2026", [{"opened_on": 1_767_225_600_000}, {"opened_on": 1_777_593_600_000}], [0, 1]),
    ("tickets before March 2026", [{"due_date": "2026-01-01", "created_at": "2026-04-01T00:00:00Z"}], [1]),
    (
        "pages updated last week",
        [{"updated_at": f"2026-08-{each}T12:00:00Z"} for each in ("02", "03", "09")],
        [1, 0, 0],
    ),
    (
        "pages updated last week",
        [{"created_at": "2026-08-09T12:00:00Z"}, {"created_at": "2026-08-10T12:00:00Z"}],
        [0, 1],
    ),
    (
        "notes after 2026-06-01",
        [{"made": "2026-06-01 17:12:00 +0200"}, {"made": "2.6.2026"}, {"made": "2026-06-02 at noon"}],
        [1, 0, 0],
    ),
    ("bills due before 2026-09-01", [{"due": "2026-08-31", "created_at": "2026-10-01T00:00:00Z"}, {"x": 1}], [0, 0.5]),
    (
        "books published in May 2025",
        [{"published": each} for each in ("2025", "2025-05", "2024", "2025-04")],
        [0, 0, 1, 1],
    ),
    ("books published after May 2025", [{"published": each} for each in (2025, "2025-05", 2024)], [0, 1, 1]),
    ("books published before May 2025", [{"published": each} for each in (2025, "2025-05", 2024)], [0, 1, 0]),
    ("tickets after 2026-06-01", ["On 2026-07-01 it broke.", {"created_at": "2026-05-01T00:00:00Z"}], [0.5, 1]),
    ("soup rated over 4.5", [{"rating": 3.4, "ingredients": [{"amount": 5}]}, {"rating": 4.8}], [1, 0]),
    ("tickets with CSAT under 3", [{"CSAT": 4, "price": 1}, {"CSAT": 2, "price": 9}], [1, 0]),
    ("rooms under 100", [{"rooms": 3, "price": 120}, {"rooms": 300, "price": 80}], [1, 0]),
    ("flat with at least 80 square metres", ["Four rooms, 96 square metres", "Two rooms, 60 m²"], [0, 1]),
    ("Wohnung ab 80 qm", ["Wohnung, 96 Quadratmeter", {"wohnflaeche_qm": 60}], [0, 1]),
    ("flat with at least three rooms", ["Four rooms by the park", "2 rooms", {"rooms": 3}], [0, 1, 0]),
    ("board game for more than 3 players", ["For two to four players.", "For 2 players", "For 5-8 players"], [0, 1, 0]),
    ("Zelt für mindestens 4 Personen", [{"personen": 5}, {"persons": 2}], [0, 1]),
    ("cottage for at least 8 people", [{"beds": 9}, {"beds": 5}, "Sleeps eight", "Cottage"], [0, 1, 0, 0.5]),
    ("hall for 300 people", [{"seats": 1400}, {"seats": 90}, "For up to 300 people", "Room 300"], [0, 1, 0, 0.5]),
    ("game for a 4 year old", [{"age": "3+"}, {"age": "12 months+"}, {"age": "10+"}, {"age": 4}], [0, 0, 1, 0]),
    ("game for a 4 year old", ["Ten minutes, from 8 years", "From 36 months", "Half an hour"], [1, 0, 0.5]),
    ("toy for a one year old", ["From 12 months", "From 18 months"], [0, 1]),
    ("hub with more than 4 ports", [{"ports": 7}, {"ports": 4}], [0, 1]),
    ("drill between 12 and 18 V", [{"voltage": "18V"}, {"voltage": "36 V"}], [0, 1]),
    ("phone with more than 4,500 mAh", ["Battery of 5000 mAh", "Battery of 4000 mAh"], [0, 1]),
    ("heater above 1.5 kW", [{"power_w": 2000}, {"power_w": 1000}], [0, 1]),
    ("recipe under 30 minutes", [{"duration_min": 25}, {"duration_min": 45}], [0, 1]),
    ("recipe under 30 minutes", ["Soup in 20 minutes", "Stew, takes 2 hours"], [0, 1]),
    ("chocolate with more than 70 % cocoa", ["Cocoa: 85 %", "Cocoa: 50%"], [0, 1]),
    ("flour up to 1 kg", ["Flour 500 g", "Flour, 2.5 kg"], [0, 1]),
    ("headphones under 100 euro", ["Headphones", "Cable"], [0, 0]),
    # The sums that people are paid, or pay each month, are amounts of money as prices are.
    ("welder from 40000 euro", [{"Gehalt bis": 45000}, {"Gehalt bis": 38000}, {"salary_max": 50000}], [0, 1, 0]),
    ("Wohnung unter 900 Euro", [{"miete_monat": 860}, {"miete_monat": 950, "preis_pro_nacht": 80}], [0, 1]),
    ("Wohnung Warmmiete bis 900 Euro", [{"kaltmiete": 800, "warmmiete": 967}, {"warmmiete": 890}], [1, 0]),
    ("flat with at least 70 sqm", [{"surface_m2": 81}, {"surface_m2": 52}], [0, 1]),
    ("Wohnung unter 900 Euro", [{"Kaltmiete": "850 €"}, {"kaltmiete_eur": 950}], [0, 1]),
    (
        "clerk under 60k",
        ["Clerk. Budget for courses: 1,500.", "Clerk, salary 52000", "Clerk, salary 75000"],
        [0.5, 0, 1],
    ),
    # A number that no word calls a year is one if documents have years, and else an amount that divides them.
    (
        "Wohnung bis 1900",
        [{"rent": 1850}, {"rent": 2100}, {"rent": 850, "created_at": "2024-01-01T00:00:00Z"}],
        [0, 1, 0],
    ),
    ("Wohnung bis 1900", [{"rent": 1850, "built": 2001}, {"rent": 2100, "built": 1890}], [1, 0]),
    ("Wohnung vor 1900", [{"rent": 1850}, {"rent": 2100}], [0, 0]),
    ("Wohnung gebaut bis 1900", [{"rent": 1850}, {"rent": 2100}], [0, 0]),
    ("camera ab 2015", [{"price": 300, "created_at": 1.6e9}, {"price": 400, "created_at": 1.3e9}], [0, 1]),
    ("Miete bis 1900", [{"rent": 1850, "built": 1995}, {"rent": 2100, "built": 1890}], [0, 1]),
    ("flat between 1900 and 2000", ["Flat, 1950 €", "Flat, 2100 €"], [0, 1]),
    ("mortgage over 50 years", ["Mortgage over 50 years", "Mortgage"], [0, 0.5]),
    ("lamp under 100 euro", [{"price": math.nan}, {"price": True}, {"price": None}, {"price": 80}], [0.5, 0.5, 0.5, 0]),
]

EXCLUSIONS: Final[list[tuple[str, list[Any], list[float]]]] = [
    ("jam without sugar", ["Jam with cane sugar", "Jam with apple juice", "Sugar-free jam"], [1, UNKNOWN, 0]),
    ("jam without sugar", ["Jam, no added sugar", "Jam without any sugar", "Jam free of sugar"], [0, 0, 0]),
    ("jam without sugar", ["Jam. Not cheap. Sugar is the first thing in it.", "Jam, not cheap, with sugar"], [1, 1]),
    (
        "belt, not leather",
        [{"title": "Belt", "material": "leather"}, {"title": "Belt", "material": "cotton"}, {"title": "Belt"}],
        [1, 0, UNKNOWN],
    ),
    # Where a field is the excluded thing, another value of it is something else.
    ("grinder not makita", [{"brand": "Makita"}, {"brand": "Bosch"}, {"title": "Grinder"}], [1, 0, UNKNOWN]),
    ("grinder not makita", ["Makita", "Bosch"], [1, UNKNOWN]),
    ("grinder not makita", [{"brand": "Bosch", "by": "for Makita"}, {"brand": "Makita"}], [1, 1]),
    ("shirt not black", [{"colours": ["black", "red"]}, {"colours": ["red", "blue"]}, {"size": "L"}], [1, 0, UNKNOWN]),
    ("jam without cane sugar", [{"tag": "sugar"}, {"tag": "fruit"}], [0.5, UNKNOWN]),
    ("hotel not near the airport", ["Hotel at the airport", "Hotel, far from the airport", "Hotel"], [1, 0, UNKNOWN]),
    # Negations of other languages, and words within a run.
    ("crema senza profumo", ["Crema senza profumo", "Crema con profumo", "Crema"], [0, 1, UNKNOWN]),
    ("chaqueta para lluvia que no tenga capucha", ["Chaqueta sin capucha", "Chaqueta con capucha"], [0, 1]),
    ("sap zonder suiker", ["Suikervrij", "Sap, geen suiker", "Sap met suiker"], [0, 0, 1]),
    ("шоколад без сахара", ["Шоколад без сахара", "Шоколад с сахара"], [0, 1]),
    ("不要涂层的铁锅", ["手工铁锅无涂层", "铁锅不含涂层", "涂层铁锅", "铁锅"], [0, 0, 1, UNKNOWN]),
    ("香料なしの化粧水", ["無香料の化粧水", "香料不使用", "香料も着色料も入っていません", "香料入り"], [0, 0, 0, 1]),
    ("salad no onions", ["Salad with peas and onion", "Salad with peas"], [1, UNKNOWN]),
    ("toy without batteries", ["Toy, one battery", "Toy, needs no battery", "Toy, batteryless"], [1, 0, 0]),
    ("curry without coconut milk", ["Curry, coconut milk", "Curry, coconut oil", "Curry"], [1, 0.5, UNKNOWN]),
    (
        "cake without nuts or milk",
        ["Cake with milk", "Cake with nuts", "Cake", "Cake, no nuts, with milk"],
        [1, 1, UNKNOWN, 1],
    ),
    ("Kuchen ohne Zucker", ["Kuchen, zuckerfrei", "Kuchen mit Rohrzucker", "Kuchen, kein Zucker"], [0, 1, 0]),
    ("Lampe ohne Kabel", ["Kabellose Lampe", "Lampe mit Ladekabel"], [0, 1]),
    ("Seife ohne Duft", ["Seife mit Duft von Lavendel", "Seife, duftfrei", "Seife, mild"], [1, 0, UNKNOWN]),
    ("gâteau sans œufs", ["Gâteau, six œufs", "La compote remplace les oeufs", "Gâteau"], [1, 0, UNKNOWN]),
    ("lamp without cable", ["You can replace the cable", "A battery replaces the cable"], [1, 0]),
    ("wood, not treated", ["Untreated wood", "Wood, pressure treated", "Wood"], [0, 1, UNKNOWN]),
    ("nurse but no night shifts", ["Nurse. Night shifts are not planned.", "Nurse, night shifts"], [0, 1]),
    ("Pfleger ohne Nachtdienst", ["Pfleger, Nachtdienst nicht nötig", "Pfleger, Nachtdienst. Nicht leicht."], [0, 1]),
    ("hotel without parking", ["Hotel, parking is free", "Hotel, parking-free", "Hotel, free parking"], [1, 0, 1]),
    ("cake no nuts", ["Cake, nuts left out", "Cake with walnuts", "Cake, nuts", "Cake, minute"], [0, 1, 1, UNKNOWN]),
    ("screws that do not rust", ["Screws rust", "Screws that never rust"], [1, 0]),
]


@pytest.mark.parametrize(("text", "documents", "expected"), LIMITS)
def test_a_limit_by_hand(text: str, documents: list[Any], expected: list[float]) -> None:
    """Fields are found by name, unit and subject, and texts by unit and subject; what is unlike says nothing."""
    assert fails(text, *documents) == expected


@pytest.mark.parametrize(("text", "documents", "expected"), EXCLUSIONS)
def test_an_exclusion_by_hand(text: str, documents: list[Any], expected: list[float]) -> None:
    """A document fails that names it, unless it says that it is without it."""
    assert fails(text, *documents) == expected


def test_the_field_that_decided_is_named() -> None:
    """The one of the candidates' fields that suits the words; none where their texts decided, or nothing."""
    assert field_of("laptop with at least 16 GB memory", {"ram_gb": 8, "storage_gb": 512}) == "ram_gb"
    assert field_of("storage of at least 16 GB", {"ram_gb": 8, "storage_gb": 512}) == "storage_gb"
    assert field_of("lamp under 100 euro", {"stock": 5, "price": 80}) == "price"
    assert field_of("lamp under 100 euro", {"offers": [{"price": 80}]}) == "offers.price"
    assert field_of("lamp under 100 euro", {"title": "Lamp, 80 euro"}) is None
    assert field_of("lamp under 100 euro", {"title": "Lamp"}) is None
    assert field_of("report from 2021 onwards", {"created_at": 1.6e9}) == "created_at"
    assert field_of("cheapest lamp", {"price": 5}) == "price"
    times = {"created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-05-01T00:00:00Z", "release_date": "2025-01-01"}
    closed = {**times, "closed_at": "2026-06-01T00:00:00Z", "due": "2026-07-01"}
    assert field_of("tickets created since May", times) == "created_at"
    assert field_of("tickets created since 2024", times) == "created_at"
    assert field_of("tickets updated since May", times) == "updated_at"
    assert field_of("tickets released since May", times) == "release_date"
    assert field_of("tickets after 2026-06-01", {"due": "2026-07-01", "created_at": 1.7e9}) == "created_at"
    assert field_of("tickets closed after 2026-06-01", closed) == "closed_at"
    assert field_of("tickets due after 2026-06-01", closed) == "due"
    assert (
        field_of("soup rated over 4.5", {"ingredients": [{"amount": 5}], "rating": {"average": 4}}) == "rating.average"
    )


def test_a_field_that_was_sent_decides() -> None:
    """Whatever suits the words better: a client may know."""
    wish = Limit(lt=100, field="was")
    documents = {"a": {"price": 80, "was": 120}, "b": {"price": 120, "was": 90}}
    ranked, failed = judge("lamp", documents, understood=(wish,))
    assert (failed, ids(ranked.candidates)) == ([1, 0], ["b", "a"])
    assert ranked.run.understood == (wish,)


@pytest.mark.parametrize(("text", "documents"), [(text, documents) for text, documents, _ in LIMITS])
def test_a_limit_that_is_sent_back_decides_as_it_did(text: str, documents: list[Any]) -> None:
    """The result's wish has the field, and the other fields and the texts are read as before."""
    named = {str(at): {"title": each} if isinstance(each, str) else each for at, each in enumerate(documents)}
    ranked, failed = judge(text, named)
    again, failed_again = judge(text, named, understood=ranked.run.understood)
    assert (failed_again, again.run.understood) == (failed, ranked.run.understood)


def test_hidden_fields_say_nothing() -> None:
    """Neither a limit's field, nor a text, nor a nested field."""
    documents = [{"price": 80, "text": "80 euro", "offer": {"price": 80}}, {"title": "Lamp"}]
    assert fails("lamp under 50 euro", *documents) == [1, 0.5]
    hidden = partial(hide, hidden=("price", "text", "offer.price"))
    assert fails("lamp under 50 euro", *documents, visible=hidden) == [0, 0]
    assert fails("lamp without cable", {"text": "A cable."}, visible=hidden) == [UNKNOWN]


@pytest.mark.parametrize("name", ["id", "namespace", "lang", "_marks", "_price", "updated_at", "classification"])
def test_fields_of_the_index_say_nothing(name: str) -> None:
    """They tell how a document is kept, and not what it is."""
    assert fails("lamp without cable", {name: "cable"}) == [UNKNOWN]


def test_what_fails_goes_behind() -> None:
    """By `weight`, and with `strict` it is away."""
    documents = {"dear": {"price": 200}, "unknown": {}, "cheap": {"price": 50}}
    ranked, _ = judge("lamp under 100 euro", documents)
    assert [(each.id, each.score) for each in ranked.candidates] == [("cheap", 2.0), ("unknown", 1.5), ("dear", 1.0)]
    half, _ = judge("lamp under 100 euro", documents, recipe("keyword", {"wishes": {"weight": 0.5}}))
    assert [each.score for each in half.candidates] == [2.0, 1.75, 1.5]
    strict, _ = judge("lamp under 100 euro", documents, recipe("keyword", {"wishes": {"strict": True}}))
    assert ids(strict.candidates) == ["cheap", "unknown"]


@pytest.mark.parametrize("far", [0, 30, 70, 100, 500])
def test_long_texts_are_read_where_they_speak_of_it(far: int) -> None:
    """Wherever the number stands, beside which other number, it is read with its unit."""
    words = "lorem " * (far // 6)
    assert fails("flat with at least 80 square metres", f"{words} 3 {words} 5 {words}96 square metres {words}") == [0]
    assert fails("jam without sugar", f"{words}sugar {words} no sugar {words}") == [0]


def test_several_wishes_add_up() -> None:
    """Each takes its part."""
    documents = {"a": {"price": 200, "brand": "Makita"}, "b": {"price": 50, "brand": "Bosch"}}
    ranked, failed = judge("drill under 100 euro not makita", documents)
    assert failed == [2, 0]
    assert len(ranked.run.understood or ()) == 2


def test_an_order_by_hand() -> None:
    """Of those with half of the best score or more; one without a price stays where it is."""
    payloads = {"a": {"price": 30}, "b": {"price": 10}, "c": {"price": 20}, "d": {"price": 1}, "e": {}}
    hits = [("a", 1.0), ("b", 0.9), ("e", 0.8), ("c", 0.5), ("d", 0.4)]
    wish = Order(about=["price"])
    ranked = first_phase(STAGE, [keyword(*hits, payloads=payloads)], Facts(understood=(wish,)))
    assert [(each.id, each.score) for each in ranked.candidates] == [
        ("b", 2.0),
        ("c", 1.5),
        ("a", 1.0),
        ("e", 0.8),
        ("d", 0.4),
    ]
    dear = wish.model_copy(update={"direction": "desc"})
    ranked = first_phase(STAGE, [keyword(*hits, payloads=payloads)], Facts(understood=(dear,)))
    assert ids(ranked.candidates)[:3] == ["a", "c", "b"]


def test_the_newest_is_the_latest_of_a_day() -> None:
    """An order by dates is one of times, not of years."""
    documents = {at: {"created_at": f"2024-05-01T{at}:00:00Z"} for at in ("09", "11", "10")}
    ranked, _ = judge("newest lamp", documents)
    assert ids(ranked.candidates) == ["11", "10", "09"]


def test_an_order_is_of_those_that_have_the_words() -> None:
    """As much of them as the best candidate: another thing that is cheaper is none of them."""
    payloads = {"a": {"price": 30}, "b": {"price": 10}, "c": {"price": 1}}
    matches = Matches.of_words({"lamp": {"a": ["title"], "b": ["title"]}})
    on = recipe("keyword", "coverage", "wishes")
    facts = Facts(understood=(Order(about=["price"]),), matches=matches)
    ranked = first_phase(on, [keyword(("a", 1.0), ("c", 0.9), ("b", 0.1), payloads=payloads)], facts)
    assert ids(ranked.candidates) == ["b", "a", "c"]


@pytest.mark.parametrize("values", [[2019, 2021], ["2019-05", "2021"], ["2019-05-01", "2021-01-01T00:00:00+01:00"]])
def test_the_newest_is_found_by_any_date(values: list[Any]) -> None:
    """Years, months, days and times."""
    ranked, _ = judge("newest lamp", {str(at): {"released": each} for at, each in enumerate(values)})
    assert ids(ranked.candidates) == ["1", "0"]


def test_an_order_without_a_field_changes_nothing() -> None:
    """Nobody says what the cheapest is."""
    ranked, _ = judge("cheapest lamp", {"a": {"title": "Lamp"}, "b": {"title": "Lamp"}})
    assert [(each.id, each.score) for each in ranked.candidates] == [("a", 2.0), ("b", 2.0)]


def test_without_wishes_nothing_is_read() -> None:
    """The candidates are as they were, and their payloads are left alone."""

    def refuse(payload: Mapping[str, Any]) -> Mapping[str, Any]:
        raise AssertionError(payload)

    ranked = first_phase(STAGE, [keyword(("a", 1.0))], Facts(text="lamp", visible=refuse, explain=True))
    assert [each.score for each in ranked.candidates] == [1.0]
    assert [step["stage"] for step in explained(ranked, "a")["stages"]] == ["keyword"]


def test_it_stands_last_in_hybrid() -> None:
    """Behind the model, for what fails must not come back by the model's scores."""
    assert isinstance(SHIPPED["hybrid"].stages[-1], Wishes)
    assert isinstance(SHIPPED["hybrid"].later[-1], Wishes)


def some_payloads() -> st.SearchStrategy[dict[str, Any]]:
    """Payloads of odd values under names that wishes read."""
    said = st.sampled_from(["42", "2.5 kg", "80 euro", "no sugar", "2020-05", "0001-01-01T00:00:00+14:00", "x"])
    scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), said)
    inside = st.recursive(
        scalars, lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(), each, max_size=3)
    )
    names = st.sampled_from(["price", "size", "width_cm", "title", "text", "created_at", "currency", "released", "_x"])
    return st.dictionaries(names, inside, max_size=5)


WISHES: Final[list[Wish]] = [
    Limit(lt=100, unit="EUR"),
    Limit(gte=5, lte=90, unit="cm", about=["width"]),
    Limit(gt=2000, unit="year", about=["date"]),
    Limit(gte=20_200_101, lt=20_200_601, unit="date"),
    Limit(value="42", about=["size"]),
    Limit(gt=3, about=["gizmos"]),
    Exclusion(without="sugar"),
    Order(about=["price"]),
    Order(about=["date"], direction="desc"),
]


@given(st.lists(some_payloads(), max_size=6), st.lists(st.sampled_from(WISHES), max_size=4), st.booleans())
def test_whatever_documents_say_the_score_is_explained(payloads: list[Any], wishes: list[Wish], strict: bool) -> None:
    """Odd values raise nothing, each score follows from its explanation, and none of what fails is left by `strict`."""
    hits = [(str(at), float(at)) for at in range(len(payloads))][::-1]
    named = {str(at): each for at, each in enumerate(payloads)}
    on = recipe("keyword", {"wishes": {"strict": strict}})
    ranked = first_phase(on, [keyword(*hits, payloads=named)], Facts(understood=tuple(wishes), explain=True))
    for each in ranked.candidates:
        said = explained(ranked, each.id)
        assert math.isclose(list(recompute(said))[-1].recomputed, each.score, rel_tol=1e-12, abs_tol=1e-12)
        judged = [wish["fails"] for step in said["stages"][1:] for wish in step["values"]["wishes"]]
        assert all(fail in {FITS, UNKNOWN} or not strict or fail < FAILS for fail in judged)
    assert strict or len(ranked.candidates) == len(payloads)
    scores = [each.score for each in ranked.candidates]
    assert scores == sorted(scores, reverse=True)


def test_the_ends_of_a_range_are_one() -> None:
    """A limit fits if one of them does; another field of the subject is read only where neither is there."""
    pay = [{"pay from": 40, "price_from": 40, "price_to": 60}, {"price_to": 40}, {"price_from": 60, "price_to": 80}]
    assert fails("job under 50 euro", *pay) == [0, 0, 1]
    assert fails("job over 50 euro", *pay) == [0, 1, 0]
    assert fails("job over 50 euro", {"price": 40, "price_shipping": 60}) == [1]
