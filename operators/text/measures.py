"""Measures: the numbers of a text with their units, and the words beside them. Pure.

Promises:
- Numbers are read in every usual spelling: `1,5`, `.5`, `1.200`, `1 200`, `16GB`, `20k`, and small ones as words. A
  single separator with three digits behind it separates thousands.
- A number inside of an identifier, such as `m8`, `5x60`, `1440p` or `1.2.3`, is none. A date in figures is one word.
- Words are compared without case and accents. The time is linear in the text's length.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import Final, NamedTuple

from operators.text.phrases import UNSPACED, WORDS, Meaning, Phrases, read_rows, simplify
from operators.text.vocabulary import RUNS


class Unit(NamedTuple):
    """A unit: its name, its kind, and its size in the kind's smallest unit."""

    name: str
    kind: str
    factor: float


class Lexeme(NamedTuple):
    """A word, number or sign of a text, folded, with its span; `glued`: no space is before it."""

    text: str
    start: int
    end: int
    number: float | None = None
    glued: bool = False


class Measure(NamedTuple):
    """A number from token `start` to before `end`, with the unit that is written beside it."""

    number: float
    unit: Unit | None
    start: int
    end: int


_UNITS: Final = """
length = width height length depth thickness diameter size screen:
 mm 1 mm мм 毫米 ミリ millimeter millimeters millimetre millimetres;
 cm 10 cm см 厘米 公分 センチ centimeter centimeters centimetre centimetres zentimeter zentimetern;
 m 1000 m м 米 メートル meter meters metre metres metern metros metri метр метра метров; km 1000000 km км 公里 千米
 キロメートル kilometer kilometers kilometre kilometres kilometern;
 inch 25.4 inch 英寸 inches pulgadas pollici polegadas inci inç tum дюймов zoll pouce pouces " ″; ft 304.8 ft foot
 feet fuss; mi 1609344 mile miles meile meilen
mass = weight: mg 1 mg milligram milligrams milligramm milligramme milligrammes;
 g 1000 g г 克 グラム gram grams gramos grammi gramas грамм gramm gramme grammes gr;
 kg 1000000 kg кг 公斤 千克 キロ kgs quilos kilo kilos kilogram kilograms kilogramm kilogramme kilogrammes;
 t 1000000000 t tonne tonnes tonnen; lb 453592.37 lb lbs; oz 28349.523 oz ounce ounces unze unzen
volume = volume: ml 1 ml мл 毫升 ミリリットル milliliter mililitros millilitri milliliters millilitre millilitres;
 cl 10 cl centiliter centilitre centilitres;
 l 1000 l л 升 リットル liter litros litri litrów litry литр литра литров liters litre litres litern; gal 3785.41
 gal gallon gallons
area = area: m² 1 m² m2 qm sqm quadratmeter quadratmetern|square metre|square metres|square meter|square meters|
 metres carres; ft² 0.092903 ft² ft2 sqft|square feet|sq ft; ha 10000 ha hektar hectare hectares
data = memory storage: kB 1 kb kilobyte kilobytes; MB 1000 mb mo megabyte megabytes;
 GB 1000000 gb гб go gig gigs gigabyte gigabytes gigaoctets gib; TB 1000000000 tb тб terabyte terabytes teraoctets tib
power = power: W 1 w вт 瓦 ワット watt vatios watts; kW 1000 kw kilowatt kilowatts; hp 745.7 hp ps horsepower
voltage: V 1 v volt volts
charge = battery: mAh 1 mah; Ah 1000 ah
energy: Wh 1 wh; kWh 1000 kwh
frequency: Hz 1 hz hertz; kHz 1000 khz; MHz 1000000 mhz; GHz 1000000000 ghz
time = duration age: s 1 s 秒 sec segundos secondi secs second seconds sekunde sekunden seconde secondes;
 min 60 min 分钟 分 мин mins minutos minuti minuut minuter minutter minut dakika минут минуты minute minutes
 minuten; h 3600 h ч 小时 時間 hr horas hora ore uur uren timmar timer godzin godziny saat часов часа hrs hour hours
 stunde stunden heure heures std;
 d 86400 day days 天 dias días giorni dagen dagar dager dni gün дней дня tag tage tagen jour jours; week 604800 week
 weeks 周 週間 semanas settimane weken veckor uker uger tygodni hafta недель недели woche wochen semaine semaines;
 month 2592000 month months 个月 ヶ月 meses mesi maanden månader måneder miesięcy месяцев месяца monat monate
 monaten mois; y 31536000 yr yrs 年 岁 歳 años anos anni jaar лет года yıl yaş year years jahr jahre jahren
 jahrige jahrigen jahriges jahriger ans annees
temperature = temperature: °C 1 °c 度 celsius grados gradi graus graden градусов stopni degree degrees grad degre
 degres|° c|degrees celsius; °F 1 °f fahrenheit|° f
light = brightness: lm 1 lm lumen lumens
sound = noise: dB 1 db decibel decibels dezibel
pixels: MP 1 mp megapixel megapixels
pressure: bar 1 bar bars
speed = speed: km/h 1 kmh kph|km / h; mph 1.609 mph
rate: rpm 1 rpm
share: % 1 % percent prozent
currency = price: EUR 1 € eur euro euros евро 欧元 ユーロ; USD 1 $ usd dollar dollars dólares dollari долларов 美元
 ドル; GBP 1 £ gbp pound pounds quid; CHF 1 chf franken;
 JPY 1 ¥ jpy yen 円 日元; CNY 1 cny rmb yuan 元 块 人民币; RUB 1 ₽ руб рублей рубля рубли;
 PLN 1 zł pln złotych złote zloty; TRY 1 ₺ tl lira liradan liralık tl'; BRL 1 brl reais; SEK 1 sek; DKK 1 dkk;
 NOK 1 nok
"""
"""Kind = subjects that it measures without a unit's name: name, size and spellings of units, phrases behind bars."""

_DIMENSIONS: Final = """
price: kr kronor kroner price prices precio precios prezzo prezzi preço preços prijs fiyat cena цена 价格 価格 値段
 priced cost costs costing preis preise preislich prix cout couts tarif amount betrag montant
 salary salaries wage wages rent gehalt gehalter jahresgehalt lohn stundenlohn miete kaltmiete warmmiete salaire
 salaires loyer
date: year date dated built made produced launched jahr baujahr datum annee gebaut fabrique founded gegrundet fonde
 vintage jahrgang millesime datiert datee
date created: created creation opened submitted listed added erstellt erstellung angelegt eroffnet eingereicht cree
 creee crees creees ouvert ouverte ouverts ouvertes soumis
date updated: updated update modified modification changed edited aktualisiert aktualisierung geandert anderung
 bearbeitet modifie modifiee modifies modifiees actualise actualisee mis mise mises
date published: released release published publication posted erschienen veroffentlicht veroffentlichung publie publiee
 publies publiees sorti sortie sortis sorties paru parue parus parues
due: due deadline fallig falligkeit echeance
width: wide width breit breite breiter breites large largeur
height: high tall height hoch hohe haut haute hauteur
length: long length lange longueur longue
depth: deep depth tief tiefe profond profonde profondeur
thickness: thick thickness dick dicke epais epaisse epaisseur
diameter: diameter durchmesser diametre
weight: weight weighing weighs heavy gewicht schwer wiegt poids lourd lourde mass masse
age: age ages aged old olds alter alt alte altes jahrige jahrigen jahriges jahriger
size: size sizes sizing grosse schuhgrosse taille pointure konfektionsgrosse
memory: memory ram arbeitsspeicher memoire
storage: storage disk ssd hdd speicher speicherplatz festplatte stockage disque
volume: volume capacity volumen inhalt fassungsvermogen contenance capacite
power: power leistung puissance wattage
speed: speed geschwindigkeit vitesse
duration: duration time dauer duree runtime laufzeit autonomie zeit temps
battery: battery akku batterie
screen: screen display diagonal bildschirm ecran bildschirmdiagonale
area: area flache wohnflache surface superficie
people: people person persons personen personnes beds sleeps serves schlafplätze couchages 人 名 pessoas personas
 persone personer osób kişi kişilik человек guests gaste seats seating places capacity platze kapazitat capacite
players: players player spieler spielern joueurs joueur
rooms: rooms room habitaciones camere quartos kamers комнат zimmer zimmern pieces piece
bedrooms: bedrooms bedroom beds schlafzimmer chambres chambre
doors: doors door turen portes
seats: seats seat sitze sitzen sitzplatze places
stars: stars star sterne sternen etoiles rating ratings rated bewertet bewertung bewertungen
version: version versions versionen
pages: pages page seiten pagine páginas bladzijden stron sidor sider sayfa страниц 页 ページ
temperature: temperature temperatur
noise: noise loudness loud lautstarke laut bruit
brightness: brightness helligkeit luminosite
"""
"""Subjects that a number may have, with the words for them in queries, in texts and in names of fields."""

NUMBER_WORDS: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen",
    "null eins zwei drei vier funf sechs sieben acht neun zehn elf zwolf dreizehn vierzehn funfzehn sechzehn siebzehn"
    " achtzehn neunzehn",
    "zero un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix.sept dix.huit"
    " dix.neuf",
)
"""The numbers from zero to nineteen in English, German and French; a point is a space."""

_WORD_NUMBERS: Final = {
    word: float(value)
    for line in NUMBER_WORDS
    for value, word in enumerate(line.split()[:13])
    if value and word not in {"un", "one"}
}

OLDEST: Final = 120
"""The greatest age of people, in years."""

NUMERAL: Final = re.compile(rf"[0-9]+|\b(?:{'|'.join(_WORD_NUMBERS)})\b")
"""The beginning of a number in a folded text."""

# No thousands begin with 0: behind such digits the first sign is the decimal point, whatever it is.
_WHOLE: Final = re.compile(r"(?!0)[0-9]{1,3}(?:[,.'\u2019\u00a0\u202f ][0-9]{3})+|[0-9]*")
_MULTIPLES: Final = {"k": 1e3, "千": 1e3, "万": 1e4, "萬": 1e4}
_LONGEST: Final = 4
"""Words of the longest phrase."""
_DECADE: Final = "s"


def _read_units() -> Iterator[tuple[str, Unit]]:
    for head, units in read_rows(_UNITS):
        kind = head.partition(" = ")[0]
        for unit in units.split("; "):
            name, factor, spellings = unit.split(" ", 2)
            first, *phrases = spellings.split("|")
            for spelling in (*first.split(), *phrases):
                yield simplify(spelling), Unit(name, kind, float(factor))


UNITS: Final[Mapping[str, Unit]] = dict(_read_units())
"""Units by their spelling."""

_WIDE: Final[dict[int, str | int]] = {
    0x3000: " ",
    0xFFE5: "¥",
    **{0xFEE0 + point: point for point in range(0x21, 0x7F)},
}
"""The wide forms of ASCII's characters, by the code points."""

SPACED: Final = f"[^\\W{UNSPACED}]"
"""A character of a word between spaces."""

_RUNS, _UNITS_OF_RUNS = (
    "|".join(sorted(each, key=len, reverse=True)) for each in (RUNS, re.findall(f"[{UNSPACED}]+", _UNITS))
)


def _tokens_of(character: str, runs: str = "") -> re.Pattern[str]:
    """The words, numbers and signs of a text, whose words have such letters beside runs without spaces."""
    return re.compile(
        # A date in figures is no number.
        rf"(?<!{character})(?<![.,-])(?:[0-9]{{4}}-(?:0[1-9]|1[0-2])(?:-[0-9]{{2}})?"
        r"|[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4})(?![0-9-])"
        rf"|(?<!{character})(?<![.,])(?P<number>(?:[0-9]{{1,3}}(?:[,.'\u2019\u00a0\u202f][0-9]{{3}})+(?![0-9])"
        # "Windows 11 512 GB" has two numbers, "12 500 euros" one.
        r"|[0-9]{1,3}(?: [0-9]{3})* [0-9]00(?![0-9])|[0-9]+)(?:[.,][0-9]+)?|[.,][0-9]+)"
        rf"(?P<more>[万萬千](?!克)|(?:{character}|\u00b0)*)(?![.,][0-9])"
        rf"|{character}+(?:(?<=\wn)['\u2019]t\b|['\u2019](?=\w))?{runs}|[^\w\s]"
    )


_TOKEN: Final = _tokens_of(r"\w")
_TOKEN_OR_RUN: Final = _tokens_of(SPACED, rf"|(?<=[0-9])(?:{_UNITS_OF_RUNS})|{_RUNS}|(?:(?!{_RUNS})[{UNSPACED}])+")
_FIRST_UNSPACED: Final = re.compile(f"[{UNSPACED}]")
_WIDE_OR_UNSPACED: Final = re.compile(f"[\u3000\uff01-\uff5e\uffe5{UNSPACED}]")

YEAR: Final = Unit("year", "year", 1.0)
DATE: Final = Unit("date", "date", 1.0)
"""A day as a number: year * 10,000 + month * 100 + day."""

_BY_NAME: Final = {unit.name: unit for unit in (*UNITS.values(), YEAR, DATE)}


_ROWS: Final = [(head.split(), frozenset(simplify(words).split())) for head, words in read_rows(_DIMENSIONS)]
_WORDS_OF: Final = {
    subject: frozenset().union(*(words for heads, words in _ROWS if subject in heads))
    for heads, _ in _ROWS
    for subject in heads
}
_SUBJECTS_OF: Final = {
    kind: frozenset(subjects.split()) for kind, _, subjects in (head.partition(" = ") for head, _ in read_rows(_UNITS))
}


def unit_of(name: str | None) -> Unit | None:
    """The unit of that name or spelling."""
    if name is None:
        return None
    return _BY_NAME.get(name) or UNITS.get(simplify(name))


@lru_cache(4096)
def subjects_of(word: str) -> frozenset[str]:
    """The subjects that a folded word stands for; umlauts may be written with an e, as in `groesse`."""
    plain = word.replace("ae", "a").replace("oe", "o").replace("ue", "u")
    return frozenset(subject for subject, words in _WORDS_OF.items() if not words.isdisjoint({word, plain}))


def words_of(subjects: Iterable[str]) -> frozenset[str]:
    """The folded words for these subjects."""
    return frozenset().union(*(_WORDS_OF.get(each, {each}) for each in subjects))


def subjects_in(kind: str) -> frozenset[str]:
    """The subjects that are measured in units of this kind."""
    return _SUBJECTS_OF.get(kind, frozenset())


def is_year(number: float, first: int = 1900) -> bool:
    """True for a whole number that may be a year, of our time unless another `first` one is named."""
    return number == int(number) and first <= number <= 2100


def _number(written: str) -> float:
    if written.isdecimal():
        return float(written)
    whole = _WHOLE.findall(written)[0]
    return float(".".join("".join(filter(str.isdigit, part)) for part in (whole, written[len(whole) :])))


def tokenize(text: str) -> list[Lexeme]:
    """The words, numbers and signs of a text."""
    found: list[Lexeme] = []
    last = -1
    fold = str.lower if text.isascii() else simplify
    pattern = _TOKEN
    if _WIDE_OR_UNSPACED.search(text) is not None:
        # A search for such characters is quick, and their pattern half as quick as the other one.
        text, pattern = text.translate(_WIDE), _TOKEN_OR_RUN
    for match in pattern.finditer(text):
        start, end = match.span()
        glued, last = start == last, end
        word, (written, more) = fold(match[0]) or match[0], match.groups()
        if written is None:
            found.append(Lexeme(word, start, end, _WORD_NUMBERS.get(word), glued))
            continue
        more = fold(more)
        if not more or (more in UNITS and more != _DECADE) or more in _MULTIPLES:
            value, middle = _number(written) * _MULTIPLES.get(more, 1.0), match.end("number")
            unit = more if more not in _MULTIPLES else ""
            found.append(Lexeme(fold(written), start, middle if unit else end, value, glued))
            if unit:
                found.append(Lexeme(unit, middle, end, None, glued=True))
        else:
            found.append(Lexeme(word, start, end, None, glued))
    return found


def phrase_at(tokens: Sequence[Lexeme], at: int, table: Phrases[Meaning]) -> tuple[Meaning, int] | None:
    """The meaning of the longest phrase of a table that begins at this token, and the token behind it."""
    if not 0 <= at < len(tokens) or tokens[at].text not in table.firsts:
        return None
    for size in range(min(_LONGEST, len(tokens) - at), 0, -1):
        words = " ".join(each.text for each in tokens[at : at + size])
        if words in table:
            return table[words], at + size
    return None


def unit_at(tokens: Sequence[Lexeme], at: int) -> tuple[Unit | None, int]:
    """The unit that begins at this token, the longest, and the token behind it."""
    for size in (3, 2, 1):
        words = tokens[at : at + size]
        if len(words) == size and (unit := UNITS.get(" ".join(each.text for each in words))) is not None:
            return unit, at + size
    return None, at


def measure_at(tokens: Sequence[Lexeme], at: int) -> Measure | None:
    """The number at this token, with the unit behind it or the currency before it; None if there is no number."""
    if at >= len(tokens):
        return None
    if (before := UNITS.get(tokens[at].text)) is not None and before.kind == "currency":
        number = tokens[at + 1].number if at + 1 < len(tokens) else None
        return Measure(number, before, at, at + 2) if number is not None else None
    if (number := tokens[at].number) is None:
        return None
    unit, end = unit_at(tokens, at + 1)
    return Measure(number, unit, at, end)


def people_at(tokens: Sequence[Lexeme], at: int) -> tuple[Measure, str] | None:
    """The number of people or players at this token, or their age, such as "4-year-old", and its subject."""
    number = tokens[at].number if at < len(tokens) else None
    if number is None and tokens[at - 1].text == "one":
        # It is a pronoun elsewhere.
        at, number = at - 1, 1.0
    behind = [place for place in range(at + 1, min(at + 5, len(tokens))) if tokens[place].text != "-"]
    if number is None or not behind:
        return None
    unit = UNITS.get(tokens[behind[0]].text)
    subjects = subjects_in(unit.kind) & {"age"} if unit is not None else {"people", "players"}
    for place in behind[: 1 if unit is None else 2]:
        if found := subjects & subjects_of(tokens[place].text):
            return Measure(number, unit, at, place + 1), min(found)
    return None


def measures_of(tokens: Sequence[Lexeme]) -> Iterator[Measure]:
    """Every number of a text with its unit; the first of a range, as in `2 to 4 m`, has that of the second."""
    found: list[Measure] = []
    at = 0
    while at < len(tokens):
        measure = measure_at(tokens, at)
        if measure is not None:
            found.append(measure)
        at = measure.end if measure is not None else at + 1
    for measure, after in zip_longest(found, found[1:]):
        ranged = after is not None and measure.unit is None and measure.end + 1 == after.start
        if ranged and tokens[measure.end].text in WORDS["spanning"]:
            yield measure._replace(unit=after.unit, end=after.end if after.unit is None else measure.end)
        else:
            yield measure


_ENDINGS: Final = {
    "": 0,
    **dict.fromkeys(("s", "es", "x", "n"), 3),
    **dict.fromkeys(("en", "e", "ies", "ed", "ing", "'s"), 4),
    **dict.fromkeys(("er", "ern", "em", "y"), 5),
}
"""Endings of inflection, and how many letters a stem before them has at least: `corner` has none of `corn`."""

_COMPOUND: Final = 5

HEAD: Final = 4
REST: Final = 3
"""Letters of the shortest end of a compound, as it is written, and of what is before it: `coats` is none of `oats`."""


@lru_cache(16384)
def stems_of(word: str) -> frozenset[str]:
    """A folded word, and its beginnings without an ending of inflection."""
    stems = ((word.removesuffix(end), least) for end, least in _ENDINGS.items() if word.endswith(end))
    return frozenset(stem for stem, least in stems if len(stem) >= least)


def is_alike(word: str, other: str) -> bool:
    """True if two folded words differ by an ending of inflection at most."""
    return word == other or not stems_of(word).isdisjoint(stems_of(other))


def stands_in_run(word: str) -> bool:
    """True for a word of a language without spaces, which may stand within a run."""
    return _FIRST_UNSPACED.match(word) is not None


def names(word: str, other: str) -> bool:
    """True if `word` is like the other one, or a compound of it: `Ladekabel` of `Kabel`; or has it, without spaces."""
    if stands_in_run(other):
        return other in word
    if is_alike(word, other):
        return True
    parts = tuple(each for each in stems_of(other) if len(word) > len(other) and len(each) >= _COMPOUND)
    # Short ones end too many words, such as `transparent`, unless they are plurals.
    is_head = len(other) >= HEAD and other[-1] == "s" and word.endswith(other) and len(word) >= len(other) + REST
    return is_head or word.startswith(parts) or word.endswith(parts)
