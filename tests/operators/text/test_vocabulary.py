"""Wishes in further languages: which are read, in which queries, and what of other languages is left alone."""

from collections import Counter
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.text import vocabulary
from operators.text.measures import tokenize
from operators.text.phrases import read_rows
from operators.text.vocabulary import RUNS, choose
from operators.text.wishes import read_wishes
from tests.operators.text.test_wishes import NONE, READ, TEXTS, VOCABULARY, said

FURTHER: Final[list[tuple[str, ...]]] = [
    ("vuelo de menos de 3 horas", "vuelo", "<3 h"),
    ("tienda por menos de 200 euros", "tienda", "<200 EUR"),
    ("lámpara de más de 30 cm", "lámpara", ">30 cm"),
    ("lámpara hasta 30 euros", "lámpara", "<=30 EUR"),
    ("portátil con al menos 16 GB de RAM", "portátil de RAM", ">=16 GB memory"),
    ("zapatos de mujer sin tacón", "zapatos de mujer", "- tacón"),
    ("gafas de sol sin montura por menos de 50 euros", "gafas de sol", "- montura", "<50 EUR"),
    ("zapatos que no sean de cuero", "zapatos", "- cuero"),
    ("hoteles excepto Madrid", "hoteles", "- Madrid"),
    ("mochila entre 20 y 30 litros", "mochila", ">=20 <=30 l"),
    ("televisão até 2000 reais", "televisão", "<=2000 BRL"),
    ("bolo sem açúcar", "bolo", "- açúcar"),
    ("telefone no máximo 300 euros", "telefone", "<=300 EUR"),
    ("corso di italiano sotto 150 euro", "corso di italiano", "<150 EUR"),
    ("zaino sotto i 100 euro", "zaino", "<100 EUR"),
    ("zaino da 20 a 30 litri", "zaino", ">=20 <=30 l"),
    ("scarpe tra 50 e 100 euro", "scarpe", ">=50 <=100 EUR"),
    ("lavatrice non più di 500 euro", "lavatrice", "<=500 EUR"),
    ("crema per viso senza profumo e senza alcol", "crema per viso", "- profumo", "- alcol"),
    ("hotel a Roma tranne Trastevere", "hotel a Roma", "- Trastevere"),
    ("lo zaino più economico", "lo zaino", "asc price"),
    ("laptop minder dan 1000 euro", "laptop", "<1000 EUR"),
    ("fiets tot 500 euro", "fiets", "<=500 EUR"),
    ("hond zonder riem maximaal 20 kg", "hond", "- riem", "<=20 kg"),
    ("jas zonder capuchon kopen", "jas kopen", "- capuchon"),
    ("tält mindre än 3 kg", "tält", "<3 kg"),
    ("jacka på rea utan huva", "jacka på rea", "- huva"),
    ("kaffe uden koffein", "kaffe", "- koffein"),
    ("cykel mindre end 2000 kr", "cykel", "<2000 price"),
    ("kaffemaskin uten filter", "kaffemaskin", "- filter"),
    ("buty do 300 zł", "buty", "<=300 PLN"),
    ("rower od 1000 do 2000 zł", "rower", ">=1000 <=2000 PLN"),
    ("kurtka bez kaptura", "kurtka", "- kaptura"),
    ("telewizor powyżej 50 cm", "telewizor", ">50 cm"),
    ("laptop 5000 TL altında", "laptop", "<5000 TRY"),
    ("ayakkabı 500 TL'den ucuz", "ayakkabı", "<500 TRY"),
    ("deri olmayan çanta", "çanta", "- deri"),
    ("en ucuz telefon", "telefon", "asc price"),
    ("кроссовки дешевле 5000 рублей", "кроссовки", "<5000 RUB price"),
    ("наушники не дороже 3000 рублей", "наушники", "<=3000 RUB"),
    ("рюкзак до 2 кг", "рюкзак", "<=2 kg"),
    ("шоколад без сахара", "шоколад", "- сахара"),
    ("сапоги не из кожи", "сапоги", "- кожи"),
    ("50元以下的电饭锅", "电饭锅", "<=50 CNY"),
    ("7米以上的卷尺", "卷尺", ">=7 m"),
    ("不超过500元的裙子", "裙子", "<=500 CNY"),
    ("不要超过500元的裙子", "裙子", "<=500 CNY"),
    ("100到200元的裙子", "裙子", ">=100 <=200 CNY"),
    ("4人以上的帐篷", "帐篷", ">=4 people"),
    ("不含香料的面霜", "面霜", "- 香料"),
    ("耳机 不要蓝牙 黑色", "耳机 黑色", "- 蓝牙"),
    ("最便宜的手机", "手机", "asc price"),
    ("５０００円以下の炊飯器", "炊飯器", "<=5000 JPY"),
    ("1万円以下のイヤホン", "イヤホン", "<=10000 JPY"),
    ("2000円から3000円のどら焼き", "どら焼き", ">=2000 <=3000 JPY"),
    ("香料なしの化粧水", "化粧水", "- 香料"),
    ("革を除く財布", "財布", "- 革"),
]
"""A text that speaks for its language, its rest, and the wishes that are read from it."""

NAMES: Final = [
    *("original sin novel", "the wages of sin", "sin city dvd", "vegan sin", "SEM scanning microscope"),
    *("orang utan book", "Massimo Dutti 40", "Prima Donna BH 75", "sotto voce album", "hasta la vista 2 dvd"),
    *("do 50 pushups", "do 20 minutes of yoga", "con air movie", "ten per cent", "een", "da 50 euro"),
    *("como lago hotel", "la vida sin", "non stop", "senza", "без", "bez", "uden", "zonder 50"),
    *("quiero pintar y que no vuelva a salir moho", "no es país para viejos", "non è un paese per vecchi"),
    *("lavatrice che non funziona", "wasmachine werkt niet", "pralka nie działa"),
    *("Не работает телефон", "телефон не заряжается", "yazıcı çalışmıyor", "skrivaren skriver inte ut"),
    *("没有声音的耳机", "打印机没有反应", "是不是防水的手表", "要不要充电", "不要放弃", "无间道", "目的地", "以上"),
    *("はなしの本", "おもてなしの心", "千と千尋の神隠し", "香料なし", "七つの大罪", "10度の寝袋", "50元的电饭锅"),
]
"""Names, titles and states: no wishes, whatever the language."""

AT_HOME: Final = [
    ("botas sin piel", "spanish", "es", "botas"),
    ("bolo sem lactose", "portuguese", "pt-BR", "bolo"),
    ("jacka utan luva", "swedish", "sv", "jacka"),
    ("laptop en az 16 GB", "turkish", "tr", "laptop"),
]


@pytest.mark.parametrize("case", FURTHER, ids=[text for text, *_ in FURTHER])
def test_wishes_are_read_in_further_languages(case: tuple[str, ...]) -> None:
    """The words themselves speak for the language."""
    text, rest, *wishes = case
    read = read_wishes(text)
    assert (read.rest, [said(each) for each in read.wishes]) == (rest, wishes)


@pytest.mark.parametrize("text", NAMES)
def test_names_and_states_are_left_alone(text: str) -> None:
    """To the letter."""
    assert read_wishes(text) == (text, ())


@pytest.mark.parametrize(("text", "language", "lang", "rest"), AT_HOME)
def test_a_word_that_languages_share_needs_the_language(text: str, language: str, lang: str, rest: str) -> None:
    """Of the collection, or of the query; and a query of another language is none of it."""
    assert read_wishes(text) == (text, ())
    assert read_wishes(text, at_home=[language]).rest == rest
    assert read_wishes(text, lang=lang).rest == rest
    assert read_wishes(text, lang="en", at_home=[language]) == (text, ())


def test_a_word_means_what_it_means_in_its_language() -> None:
    """The Spanish no negates a verb, and the English one excludes a thing."""
    assert read_wishes("móvil no carga", lang="es") == ("móvil no carga", ())
    assert read_wishes("capa no couro", lang="pt") == ("capa no couro", ())
    assert read_wishes("tea no sugar", lang="en").rest == "tea"


@pytest.mark.parametrize("text", [*(text for text, *_ in READ), *NONE])
def test_collections_of_all_languages_read_the_others_alike(text: str) -> None:
    """English, German and French queries have the same wishes there."""
    at_home = [*vocabulary._FURTHER]
    if text not in {"pas cher vélo", "quiero pintar y que no vuelva a salir moho"}:
        assert read_wishes(text, at_home=at_home) == read_wishes(text)


@given(st.one_of(TEXTS, st.lists(st.sampled_from([*VOCABULARY, *vocabulary._SPEAKERS]), max_size=10).map(" ".join)))
def test_a_language_that_nothing_speaks_for_is_not_read(text: str) -> None:
    """With `lang` en, de or fr, no other vocabulary is."""
    words = {each.text for each in tokenize(text)}
    own = choose(set(), "")
    assert all(choose(words, text, lang) is own for lang in ("en", "de-AT", "fr"))
    assert choose(words, text, "es") is choose(set(), "", "es")


@given(st.lists(st.sampled_from([*sorted(RUNS), "电饭锅", "テント", "50", "元", "円", "5000", "kg", "A"]), max_size=12))
def test_runs_are_cut_without_a_loss(parts: list[str]) -> None:
    """The tokens of a text without spaces are its characters."""
    text = "".join(parts)
    assert "".join(text[each.start : each.end] for each in tokenize(text)) == text


def test_the_further_tables_agree() -> None:
    """In a language no phrase has two meanings in a table; each has limits, exclusions and an order."""
    found = Counter[tuple[str, str, str]]()
    for head, phrases in read_rows(vocabulary._TABLE):
        language, table, *_ = head.replace("danish norwegian", "danish").split()
        found.update((language, table, each) for each in phrases.split("|") if table != "words")
    assert [each for each, count in found.items() if count > 1] == []
    for language, own in vocabulary._FURTHER.items():
        assert own.before or own.behind, language
        assert own.excluding or own.excluded, language
        assert own.orders, language
