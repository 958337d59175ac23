"""Wishes in words: which are read from a text, which are none, and what holds of every text."""

import re
from collections import Counter
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.text.phrases import BEFORE, BEHIND, EXCLUDING, ORDERS
from operators.text.wishes import read_wishes, take_away
from operators.text.words import words
from schemas.query import Exclusion, Limit, Order, Wish
from tests.tiers import sized

SIGNS: Final = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def said(wish: Wish) -> str:
    """A wish in brief: bounds, unit and subjects; what is excluded; the direction and subject of an order."""
    if isinstance(wish, Exclusion):
        return f"- {wish.without}"
    if isinstance(wish, Order):
        return f"{wish.direction} {' '.join(wish.about)}"
    bounds = [f"{sign}{getattr(wish, name):g}" for name, sign in SIGNS.items() if getattr(wish, name) is not None]
    exact = [f"={wish.value}"] if wish.value is not None else []
    return " ".join([*bounds, *exact, *([wish.unit] if wish.unit else []), *wish.about])


READ: Final[list[tuple[str, ...]]] = [
    ("tent for at least 4 people", "tent people", ">=4 people"),
    ("monitor under 27 inch", "monitor", "<27 inch"),
    ("monitor of 27 inches or more", "monitor", ">=27 inch"),
    ("kettle with more than 1.7 l", "kettle", ">1.7 l"),
    ("phone with a battery over 4500 mAh", "phone with a battery", ">4500 mAh battery"),
    ("phone battery at least 4,500 mAh", "phone battery", ">=4500 mAh battery"),
    ("novel with fewer than 300 pages", "novel pages", "<300 pages"),
    ("apartment with at least three rooms", "apartment rooms", ">=3 rooms"),
    ("3+ bedroom house", "bedroom house", ">=3 bedrooms"),
    ("4+ players board game", "players board game", ">=4 players"),
    ("car older than 2010", "car", "<2010 year date"),
    ("car newer than 2015", "car", ">2015 year date"),
    ("wine from before 2015", "wine", "<2015 year date"),
    ("laptop $500 to $800", "laptop", ">=500 <=800 USD"),
    ("laptop under $1,200.50", "laptop", "<1200.5 USD"),
    ("laptop under £1k", "laptop", "<1000 GBP"),
    ("Rucksack bis 20 Liter", "Rucksack", "<=20 l"),
    ("Tisch höchstens 80 cm breit", "Tisch", "<=80 cm width"),
    ("Tisch, maximal 80 cm breit", "Tisch", "<=80 cm width"),
    ("Tisch nicht breiter als 80 cm", "Tisch", "<=80 cm width"),
    ("Wohnung ab 60 qm", "Wohnung", ">=60 m²"),
    ("Wohnung mit mindestens 3 Zimmern", "Wohnung Zimmern", ">=3 rooms"),
    ("chaussures pointure 38", "chaussures", "=38 size"),
    ("sac de plus de 40 litres", "sac", ">40 l"),
    ("livre paru après 2018", "livre", ">2018 year published"),
    ("livre publié entre 2010 et 2015", "livre", ">=2010 <=2015 year published"),
    ("Fahrrad über 500 Euro", "Fahrrad", ">500 EUR"),
    ("Fahrräder zwischen 500 und 1.000 Euro", "Fahrräder", ">=500 <=1000 EUR"),
    ("Fahrrad von 500 bis 1000 Euro", "Fahrrad", ">=500 <=1000 EUR"),
    ("dress size M", "dress", "=M size"),
    ("Kleid Größe L", "Kleid", "=L size"),
    ("ordinateur avec au moins 16 Go de mémoire", "ordinateur de mémoire", ">=16 GB memory"),
    ("table de moins de 1,20 m de long", "table", "<1.2 m length"),
    ("power bank no heavier than 300 g", "power bank", "<=300 g weight"),
    ("power bank not more than 300 g", "power bank", "<=300 g"),
    ("shelf max 60 cm", "shelf", "<=60 cm"),
    ("shelf max. 60 cm", "shelf", "<=60 cm"),
    ("shelf, 60 cm max", "shelf", "<=60 cm"),
    ("hotel with 4 stars or more", "hotel", ">=4 stars"),
    ("drill 18V or more", "drill", ">=18 V"),
    ("drill with 18 V minimum", "drill", ">=18 V"),
    ("camera released since 2021", "camera", ">=2021 year published"),
    ("camera from 2021 onwards", "camera", ">=2021 year date"),
    ("washing machine less than 60 dB", "washing machine", "<60 dB"),
    ("heater above 2 kW", "heater", ">2 kW"),
    ("heater between 1500 and 2000 W", "heater", ">=1500 <=2000 W"),
    ("suitcase 40 litres or less", "suitcase", "<=40 l"),
    ("suitcase up to 10 kg", "suitcase", "<=10 kg"),
    ("phone 8gb ram or more", "phone", ">=8 GB memory"),
    ("flat under 900 valencia", "flat valencia", "<900 valencia"),
    ("sleeps at least 6", "sleeps", ">=6 people"),
    ("salad with max 5 ingredients", "salad ingredients", "<=5 ingredients"),
    ("gift for a 7 year old under 30", "gift for a 7 year old", "<=7 y age", "<30"),
    ("shoes size 42 not black", "shoes", "=42 size", "- black"),
    ("best rated hotel in Rome", "hotel in Rome", "desc stars"),
    ("bestbewerteter Staubsauger", "Staubsauger", "desc stars"),
    ("cheapest headphones", "headphones", "asc price"),
    ("the newest phone with 5G", "phone with 5G", "desc date"),
    ("neueste Kamera", "Kamera", "desc date"),
    ("billigster Flug nach Rom", "Flug nach Rom", "asc price"),
    ("le vélo le moins cher", "le vélo", "asc price"),
    ("most expensive watch", "watch", "desc price"),
    ("speakers over 80 watts", "speakers", ">80 W"),
    ("sleep more than 8 hours", "sleep", ">8 h"),
    ("under 50", "under 50", "<50"),
    ("cake without nuts or milk", "cake", "- nuts or milk"),
    ("muesli, no raisins", "muesli", "- raisins"),
    ("shampoo without silicone, size 200 ml", "shampoo, size 200 ml", "- silicone"),
    ("yoghurt without added sugar", "yoghurt", "- sugar"),
    ("soap free of perfume", "soap", "- perfume"),
    ("sausages that are not pork", "sausages", "- pork"),
    ("jacket that doesn't have a hood", "jacket", "- hood"),
    ("coffee maker other than Philips", "coffee maker", "- Philips"),
    ("hotels in Rome excluding hostels", "hotels in Rome", "- hostels"),
    ("alle Filialen außer Hamburg", "alle Filialen", "- Hamburg"),
    ("Brot ohne Hefe backen", "Brot backen", "- Hefe"),
    ("Gürtel, nicht aus Leder", "Gürtel", "- Leder"),
    ("Bohrmaschine, aber nicht von Makita", "Bohrmaschine", "- Makita"),
    ("Suppe ohne Fleisch und Milch", "Suppe", "- Fleisch und Milch"),
    ("Lampe kein Plastik", "Lampe", "- Plastik"),
    ("gâteau sans beurre ni œufs", "gâteau", "- beurre ni œufs"),
    ("ceinture, pas en cuir", "ceinture", "- cuir"),
    ("pain sans gluten", "pain", "- gluten"),
    ("magasins sauf Paris ouverts le dimanche", "magasins ouverts le dimanche", "- Paris"),
    ("machine à laver moins de 300 €", "machine à laver", "<300 EUR"),
    ("TV ab 55 Zoll", "TV", ">=55 inch"),
    ('TV over 55"', "TV", ">55 inch"),
    ("rug at least 2 m long", "rug", ">=2 m length"),
    ("rug longer than 2 metres", "rug", ">2 m length"),
    ("rug shorter than 6 feet", "rug", "<6 ft length"),
    ("flats under 800 pounds", "flats", "<800 GBP"),
    ("flour under 2 lb", "flour", "<2 lb"),
    ("sofa less than 200cm wide", "sofa", "<200 cm width"),
    ("vacuum cleaner quieter than 70 dB", "vacuum cleaner", "<70 dB noise"),
    ("ladder more than 3 meters high", "ladder", ">3 m height"),
    ("milk less than 2% fat", "milk fat", "<2 %"),
    ("chocolate with more than 70 % cocoa", "chocolate cocoa", ">70 %"),
    ("oven up to 250 degrees", "oven", "<=250 °C"),
    ("job paying more than 50,000 dollars", "job paying", ">50000 USD"),
    ("course shorter than 3 weeks", "course", "<3 week"),
    ("flight under 2 hours", "flight", "<2 h"),
    ("house built before 1900", "house", "<1900 year date"),
    ("house built after 1950", "house", ">1950 year date"),
    ("fridge under 60 cm wide and under 500 euro", "fridge", "<60 cm width", "<500 EUR"),
    (
        "laptop under 1000 euro with at least 16 GB RAM, not Apple",
        "laptop RAM",
        "<1000 EUR",
        ">=16 GB memory",
        "- Apple",
    ),
    ("recipe ready in under 30 minutes", "recipe ready", "<30 min"),
    ("Rezept unter 30 Minuten", "Rezept", "<30 min"),
    ("recette en moins de 20 minutes", "recette", "<20 min"),
    ("wine older than 10 years", "wine", ">10 y age"),
    ("children older than 6", "children", ">6 age"),
    ("toy for ages 3 and up", "toy for ages", ">=3 age"),
    ("bottle at least 0.75l", "bottle", ">=0.75 l"),
    ("tickets below CHF 50", "tickets", "<50 CHF"),
    ("Zelt für mehr als 3 Personen", "Zelt Personen", ">3 people"),
    ("appartement de 3 pièces minimum", "appartement", ">=3 rooms"),
    ("voiture après 2015", "voiture", ">2015 year date"),
    ("Auto Baujahr ab 2018", "Auto", ">=2018 year date"),
    ("smartphone bis 300€", "smartphone", "<=300 EUR"),
    ("headphones 100 euro or less", "headphones", "<=100 EUR"),
    ("bike 26 inch or larger", "bike", ">=26 inch"),
    ("jacket not black", "jacket", "- black"),
    ("tea without caffeine", "tea", "- caffeine"),
    ("yoga mat not PVC", "yoga mat", "- PVC"),
    ("speaker that is not wireless", "speaker", "- wireless"),
    ("TV between 40 and 50 inches", "TV", ">=40 <=50 inch"),
    ("camera lighter than 500 g", "camera", "<500 g weight"),
    ("film from after 2015", "film", ">2015 year date"),
    ("roman publié avant 1990", "roman", "<1990 year published"),
    ("Regal zwischen 60 und 80 cm hoch", "Regal", ">=60 <=80 cm height"),
    ("sac à dos entre 20 et 30 litres", "sac à dos", ">=20 <=30 l"),
    ("lampe à partir de 40 euros", "lampe", ">=40 EUR"),
    ("car after 2015", "car", ">2015 year date"),
    ("shoes at least size 42", "shoes", ">=42 size"),
    ("Schuhe ab Größe 42", "Schuhe", ">=42 size"),
    ("boots size 42 or larger", "boots", ">=42 size"),
    ("Windows 11 laptop over 1 TB", "Windows 11 laptop", ">1 TB"),
    ("bis 50 Euro Kopfhörer", "Kopfhörer", "<=50 EUR"),
    ("under 100 euro headphones", "headphones", "<100 EUR"),
    ("headphones for less than $99.99", "headphones", "<99.99 USD"),
    ("headphones less than 99,99 €", "headphones", "<99.99 EUR"),
    ("appartement moins de 1 200 euros par mois", "appartement par mois", "<1200 EUR"),
    ("flat under 1'500 chf", "flat", "<1500 CHF"),
    ("flat under 1.200 euro", "flat", "<1200 EUR"),
    ("coat that is not made of wool", "coat", "- wool"),
    ("soap which contains no palm oil", "soap which contains", "- palm oil"),
    ("Hundefutter ohne Getreide", "Hundefutter", "- Getreide"),
    ("Hundefutter, das kein Getreide enthält", "Hundefutter, das enthält", "- Getreide"),
    ("crème solaire sans parfum ni alcool", "crème solaire", "- parfum ni alcool"),
    ("soupe sans crème ni lait", "soupe", "- crème ni lait"),
    # German writes a thing as one word; in other languages a name's words are of one case.
    ("Wohnung ohne Balkon Berlin", "Wohnung Berlin", "- Balkon"),
    ("wohnung ohne balkon berlin", "wohnung berlin", "- balkon"),
    ("Wohnung ohne Balkon und Garten Berlin", "Wohnung Berlin", "- Balkon und Garten"),
    ("Lampe kein Plastik Ikea", "Lampe Ikea", "- Plastik"),
    ("Saft ohne künstliche Aromen kaufen", "Saft kaufen", "- künstliche Aromen"),
    ("saft ohne künstliche aromen", "saft", "- künstliche aromen"),
    ("Handy ohne USB-C Vertrag", "Handy Vertrag", "- USB-C"),
    ("Bohrer, aber nicht von Black Decker", "Bohrer", "- Black Decker"),
    ("Filialen außer Bad Homburg", "Filialen", "- Bad Homburg"),
    ("apartment without balcony Berlin", "apartment Berlin", "- balcony"),
    ("appartement sans balcon ni cave Paris", "appartement Paris", "- balcon ni cave"),
    ("hotel that has no pool New York", "hotel New York", "- pool"),
    ("phone without digital TV", "phone", "- digital TV"),
    ("phone without notch under 500 euro", "phone", "- notch", "<500 EUR"),
    ("cake recipes that don't use butter", "cake recipes", "- butter"),
    ("pizza but no mushrooms", "pizza", "- mushrooms"),
    ("museums except the Louvre", "museums", "- Louvre"),
    ("Museen außer dem Louvre", "Museen", "- Louvre"),
    ("Hotel mit weniger als 50 Zimmern", "Hotel Zimmern", "<50 rooms"),
    ("a phone that costs less than 300 euros", "a phone", "<300 EUR"),
    ("phone with a price below 300 euros", "phone with a price", "<300 EUR price"),
    ("phones priced between 200 and 300 euros", "phones", ">=200 <=300 EUR"),
    ("t-shirt XL not cotton", "t-shirt XL", "- cotton"),
    ("knife longer than 20cm, no plastic handle", "knife", ">20 cm length", "- plastic handle"),
    ("laptop with a screen bigger than 15 inches", "laptop with a screen", ">15 inch screen"),
    ("bulbs with at least 800 lumens", "bulbs", ">=800 lm"),
    ("hard drive 2 TB or more", "hard drive", ">=2 TB"),
    ("hard drives from 2 TB", "hard drives", ">=2 TB"),
    ("Festplatte ab 2 TB", "Festplatte", ">=2 TB storage"),
    ("Auto unter 10.000 km", "Auto", "<10000 km"),
    ("Gebrauchtwagen bis 8.000 € ab Baujahr 2015", "Gebrauchtwagen", "<=8000 EUR", ">=2015 year date"),
    ("used car with less than 100,000 km", "used car", "<100000 km"),
    ("voiture de moins de 100 000 km", "voiture", "<100000 km"),
    ("ticket no more than 20 pounds", "ticket", "<=20 GBP"),
    ("book with no fewer than 400 pages", "book pages", ">=400 pages"),
    ("tent weighing under 2 kg", "tent weighing", "<2 kg weight"),
    ("tent that weighs less than 2 kg", "tent that weighs", "<2 kg weight"),
    ("Zelt, das weniger als 2 kg wiegt", "Zelt, wiegt", "<2 kg weight"),
    ("bag not over 10 kg", "bag", "<=10 kg"),
    ("kids bike for age 5 and up", "kids bike for age", ">=5 age"),
    ("the cheapest", "the cheapest", "asc price"),
    ("Miete bis 1900", "Miete", "<=1900 price"),
    ("price from 1900 to 2100", "price", ">=1900 <=2100 price"),
    ("Wohnung bis 1900", "Wohnung", "<=1900 year"),
    ("Wohnung Baujahr bis 1900", "Wohnung", "<=1900 year date"),
    ("film between 1950 and 1960", "film", ">=1950 <=1960 year"),
    ("film 1950 or older", "film", "<=1950 year"),
    ("best headphones under 100", "best headphones", "<100"),
    ("hotel not near the airport", "hotel", "- airport"),
    ("hotel that is not by the airport", "hotel", "- airport"),
    ("flat not close to a motorway", "flat", "- motorway"),
    ("Hotel nicht in der Nähe vom Flughafen", "Hotel", "- Flughafen"),
    ("warm jacket no down", "warm jacket", "- down"),
    ("jacket, not down", "jacket", "- down"),
    ("room that is not over the pub", "room", "- pub"),
    ("room that is not over 50 euro", "room", "<=50 EUR"),
    ("dentist, not the one at the gate", "dentist", "- gate"),
    ("Zimmer, nicht über der Kneipe", "Zimmer", "- Kneipe"),
    ("hall for under 300 people", "hall people", "<300 people"),
    ("hall, no minimum order", "hall", "- minimum order"),
    # Those whom it must suit stay in what is searched.
    ("hall for 300 people", "hall for 300 people", ">=300 people"),
    ("Zelt für 4 Personen", "Zelt für 4 Personen", ">=4 people"),
    ("jeu pour quatre joueurs", "jeu pour quatre joueurs", ">=4 players"),
    ("game for my 4-year-old", "game for my 4-year-old", "<=4 y age"),
    ("toys for one year olds", "toys for one year olds", "<=1 y age"),
    ("Buch für ein 8-jähriges Kind", "Buch für ein 8-jähriges Kind", "<=8 y age"),
    ("tent for 3 people under 200 euro", "tent for 3 people", ">=3 people", "<200 EUR"),
]
"""A text, its rest, and the wishes that are read from it."""

NONE: Final = [
    "iphone 15 pro max 256 gb",
    "songs from the 1990s",
    "air max 90 shoes",
    "air max 270 black",
    "kids under 5 learning",
    "over 50 fitness",
    "laws for under 18 drivers",
    "return within 30 days",
    "visa for a stay of 180 days",
    "games for 2-4 players",
    "printer not printing",
    "my phone does not charge",
    "why does my cat not eat",
    "doctors without borders donation",
    "forget me not seeds",
    "chanel no 5",
    "room no. 12",
    "no country for old men",
    "Drucker druckt nicht",
    "pas cher vélo",
    "casque sans fil",
    "image build --no-cache",
    "if not exists sql",
    "NOT NULL constraint",
    "bluetooth headphones not working",
    '"not leather" belt',
    "belt NOT leather",
    "trousers waist 32",
    "books published in the 1990s",
    "404 page not found",
    "command not found bash",
    "module not found error",
    "model no XJ9 charger",
    "economy after 2008 crisis",
    "mayor since 2021",
    "python version at least 3.10",
    "version below 4.1",
    "ready or not here I come",
    "file does not exist",
    "do not disturb hanger",
    "ryzen 7 512 GB",
    "freezer colder than -18 degrees",
    "newest",
    "no-knead bread",
    "no-bake cheesecake",
    "touch me not plant",
    "gluten free pancakes",
    "sugar-free jam",
    "zuckerfreie Marmelade",
    "non stick pan",
    "not found error after moving a page",
    "without a trace crime novel",
    "Ohne Dich Noten",
    "Sans famille roman",
    "server not down",
    "speech in front of 200 people",
    "whisky from a 12 year old cask",
    "insurance for one year",
    "recipe for one",
    "what is not near",
    "quiet dishwasher for 1200 euros",
    "bread with a good crust at 240 degrees",
    "chapter 3 and 4 summary",
    "24 to 70 mm lens",
    "a wedding speech of 450 words",
    "walking 10000 steps a day",
    "a 20000 mAh power bank on a plane",
    "factory reset of a router from 2017",
    "basmati rice 2.5 kg",
    "wood screws 5x60",
    "drill bit 3.5mm",
    "upx3 25-60-180",
    "who was mayor in 2021",
    "quiero pintar y que no vuelva a salir moho",
    "",
    " , ",
]
"""Names, states, sizes and numbers without a direction, and the keyword syntax."""


@pytest.mark.parametrize("case", READ, ids=[text for text, *_ in READ])
def test_wishes_are_read(case: tuple[str, ...]) -> None:
    """By the words of three languages, and taken away."""
    text, rest, *wishes = case
    read = read_wishes(text)
    assert (read.rest, [said(each) for each in read.wishes]) == (rest, wishes)


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_wish_is_left_alone(text: str) -> None:
    """To the letter."""
    assert read_wishes(text) == (text, ())


@pytest.mark.parametrize("kind", ["limit", "exclusion", "order"])
def test_a_kind_is_switched_off(kind: str) -> None:
    """Its words stay; the other kinds are read."""
    text = "cheapest laptop under 1000 euro without touchscreen"
    rest, wishes = read_wishes(text, {"limit", "exclusion", "order"} - {kind})
    assert kind not in {each.kind for each in wishes}
    assert len(wishes) == 2
    assert {"limit": "under 1000 euro", "exclusion": "without touchscreen", "order": "cheapest"}[kind] in rest


ALIKE: Final = [
    ("under 1000 euro", "under 1,000 euros", "under €1000", "under 1.000 EUR", "UNDER 1000 EURO", "below 1k euro"),
    (
        "at least 16 GB",
        "at least 16GB",
        "16 GB or more",
        "16GB minimum",
        "mindestens 16 GB",
        "au moins 16 Go",
        "≥ 16 GB",
    ),
    ("at most 2.5 kg", "no more than 2,5 kg", "max. 2.5kg", "2.5 kg or less", "höchstens 2,5 kg", "au plus 2,5 kg"),
    ("between 20 and 40 cm", "from 20 to 40 cm", "zwischen 20 und 40 cm", "von 20 bis 40 cm", "entre 20 et 40 cm"),
    ("between 2 and 4 players", "2 to 4 players", "from 2 to 4 players"),
    ("after 2020", "newer than 2020", "nach 2020", "après 2020"),
    ("more than 30 litres", "over 30 l", "mehr als 30 Liter", "über 30 l", "plus de 30 litres", "> 30 litre"),
]


@pytest.mark.parametrize("spellings", ALIKE, ids=[first for first, *_ in ALIKE])
def test_spellings_of_one_limit_are_read_alike(spellings: tuple[str, ...]) -> None:
    """Languages, signs, spaces and separators make no difference."""
    found = {said(read_wishes(f"thing {each}").wishes[0]) for each in spellings}
    assert len(found) == 1


VOCABULARY: Final = sorted(
    {
        *(word for table in (BEFORE, BEHIND, EXCLUDING, ORDERS) for phrase in table for word in phrase.split()),
        *("lamp", "Berlin", "sugar", "16", "2020", "1,5", "euro", "€", "cm", "GB", "wide", "players", "size", "XL"),
        *(",", "-", ".", "(", '"', "NOT", "that", "is", "do", "and", "of", "the", "between", "from", "to", "16GB"),
    }
)
TEXTS: Final = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(VOCABULARY), max_size=14).map(" ".join))


@given(TEXTS)
def test_each_word_is_used_once(text: str) -> None:
    """The rest and the wishes' words together are the words of the text, unless nothing else is left of it."""
    rest, wishes = read_wishes(text)
    if rest != text:
        together = Counter(words(rest))
        for wish in wishes:
            together += Counter(words(wish.words))
        assert together == Counter(words(text))
    assert all(wish.words in text for wish in wishes)
    assert bool(words(rest)) == bool(words(text))


@given(TEXTS)
def test_wishes_that_come_back_take_the_same_words_away(text: str) -> None:
    """A client may send them with the text as it was."""
    rest, wishes = read_wishes(text)
    assert take_away(text, wishes) == rest
    assert take_away(text, ()) == text


@given(TEXTS)
def test_switched_off_a_text_is_untouched(text: str) -> None:
    """No kind, no wish."""
    assert read_wishes(text, ()) == (text, ())


@pytest.mark.parametrize("unit", ["under 5 cm ", "without ", "no more than ", "1 000", '"', "between 1 and "])
def test_long_texts_are_read(unit: str) -> None:
    """At most 16 wishes are, and their words are bounded."""
    wishes = read_wishes(unit * sized(500, nightly=50_000)).wishes
    assert len(wishes) <= 16
    assert all(len(each.words) <= 512 for each in wishes)


def test_the_tables_agree() -> None:
    """No phrase has two meanings, and all of them are folded."""
    for table in (BEFORE, BEHIND, EXCLUDING, ORDERS):
        assert all(re.fullmatch(r"[^A-ZÀ-ÿ|:]+", phrase) and phrase == phrase.strip() for phrase in table)
    assert isinstance(read_wishes("a lamp under 5 euro").wishes[0], Limit)
