"""Vocabularies: the words by which queries say wishes, by language, and the languages that a query is in.

Rules:
- English, German and French (`operators.text.phrases`) are always read. A further language is further rows of the
  table: its name, the kind of the row, and the meaning that the phrases have.
- A further language is read where the query names it, and where its words speak for it: one that no other language has
  (`senza`), or two that are short or `shared` (`sin`). A letter of its own (ñ) is as good as one of the latter, and so
  is a collection in that language: "botas sin piel" is read there, and "original sin" where nothing else speaks for
  Spanish is a title.
- Words of English, German and French speak for no other language. Chinese and Japanese words are cut out of their runs
  (`operators.text.measures`).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, Final, Literal, cast

from operators.text import phrases
from operators.text.phrases import UNSPACED, Bound, Direction, Phrases, Strength, read_rows, simplify
from schemas.settings.qdrant import LANGUAGE_OF

_TABLE: Final = """
spanish before lt strong: menos de|menor de|menor que|menor a|inferior a|inferiores a
spanish before lt weak: por debajo de|bajo
spanish before gt strong: más de|mayor de|mayor que|mayor a|superior a|superiores a
spanish before gt weak: por encima de
spanish before lte strong: como máximo|máximo|máximo de|un máximo de
spanish before lte since: hasta
spanish before gte strong: al menos|por lo menos|como mínimo|mínimo|mínimo de|un mínimo de
spanish before gte from: desde
spanish before lt moment: antes de|anterior a
spanish before gt moment: después de|posterior a
spanish before lt strong price: más barato que|más barata que|más baratos que|más baratas que|menos caro que
spanish before gt strong price: más caro que|más cara que|más caros que|más caras que
spanish behind lte: o menos|y menos|como máximo|máximo
spanish behind gte: o más|y más|como mínimo|mínimo|en adelante
spanish excluding anything case: sin|pero sin|y sin|excepto|excepto en|salvo|que no sea|que no sean|que no sea de|
 que no sean de|que no tenga|que no tengan|que no contenga|que no contengan|pero no de|libre de
spanish orders price asc: más barato|más barata|más baratos|más baratas
spanish orders price desc: más caro|más cara|más caros|más caras
spanish orders date desc: más nuevo|más nueva|más nuevos|más nuevas|más reciente|más recientes
spanish words name: litros metros gramos minutos horas días semanas meses años pulgadas
spanish words letters: ñ á í ó ú ¿
spanish words stop: y e o u ni con del el los las una unos unas que para por en son al lo se
spanish words determiner: el los las una unos unas del
spanish words filler: los las el unos unas
spanish words connector: con por para que cuesta cueste cuesten
spanish words also: y e o ni
spanish words ranged: y hasta
spanish words range: desde
spanish words negation: no
portuguese before lt strong: menos de|menor que|inferior a|inferiores a
portuguese before lt weak: abaixo de|por menos de
portuguese before gt strong: mais de|maior que|superior a|superiores a
portuguese before gt weak: acima de
portuguese before lte strong: no máximo|máximo|máximo de
portuguese before lte since: até
portuguese before gte strong: no mínimo|pelo menos|ao menos|mínimo|mínimo de
portuguese before gte from: desde
portuguese before lt moment: antes de
portuguese before gt moment: depois de|após
portuguese before lt strong price: mais barato que|mais barata que|mais baratos que|mais baratas que|
 mais barato do que|mais barata do que
portuguese before gt strong price: mais caro que|mais cara que|mais caro do que|mais cara do que
portuguese behind lte: ou menos|e menos|no máximo
portuguese behind gte: ou mais|e mais|no mínimo
portuguese excluding anything case: sem|mas sem|e sem|exceto|exceto em|que não seja|que não sejam|que não seja de|
 que não sejam de|que não tenha|que não contenha|livre de
portuguese orders price asc: mais barato|mais barata|mais baratos|mais baratas
portuguese orders price desc: mais caro|mais cara|mais caros|mais caras
portuguese words name: litros metros gramas minutos horas dias semanas meses anos polegadas reais
portuguese words letters: ã õ á í ó ú
portuguese words stop: e ou nem com do da dos das no na nos nas o os as um uma que para por em é ao se
portuguese words determiner: o os as um uma do da dos das
portuguese words filler: o os as
portuguese words connector: com por para que custe custem
portuguese words also: e ou nem
portuguese words ranged: e até
portuguese words range: desde
portuguese words negation: não
italian before lt strong: meno di|minore di|inferiore a|inferiori a
italian before lt weak: sotto|sotto i|al di sotto di|al di sotto dei
italian before gt strong: più di|maggiore di|superiore a|superiori a|oltre
italian before gt weak: sopra|sopra i|al di sopra di|al di sopra dei
italian before lte strong: al massimo|massimo|non oltre|entro
italian before lte since: fino a|fino ai|fino agli
italian before gte strong: almeno|al minimo|minimo
italian before gte since: a partire da
italian before gte from: da
italian before lt moment: prima del
italian before gt moment: dopo il
italian before gte moment: dal
italian before lt strong price: più economico di|più economica di|più economici di|meno caro di|meno cara di
italian before gt strong price: più caro di|più cara di|più cari di
italian behind lte: o meno|e meno|massimo|al massimo
italian behind gte: o più|e più|minimo|in su
italian excluding anything case: senza|ma senza|e senza|tranne|eccetto|escluso|esclusa|esclusi|escluse|che non sia|
 che non siano|che non sia di|che non siano di|che non sia in|che non siano in|che non contenga|ma non di|ma non in|
 privo di|priva di|privi di
italian orders price asc: più economico|più economica|più economici|più economiche|meno caro|meno cara
italian orders price desc: più caro|più cara|più cari|più care
italian words name: litri metri grammi minuti giorni settimane mesi pollici
italian words letters: ì ò
italian words stop: e ed o né con del della dei delle degli dello il lo gli i una uno per che da dal nel su è sono di
italian words determiner: il lo gli i l' una uno un' di del della dei delle degli dello dell'
italian words filler: i gli il lo
italian words connector: con per da di che costa costi costano
italian words also: e o né
italian words ranged: e
italian words opening: tra fra
italian words range: da
italian words negation: non
dutch before lt strong: minder dan|kleiner dan|lager dan
dutch before lt weak: onder|onder de
dutch before gt strong: meer dan|groter dan|hoger dan
dutch before gt weak: boven|boven de
dutch before lte strong: hoogstens|maximaal|ten hoogste
dutch before lte since: tot|tot en met
dutch before gte strong: minstens|minimaal|ten minste
dutch before gte since: vanaf
dutch before lt moment: voor
dutch before gt moment: na
dutch before lt strong price: goedkoper dan
dutch before gt strong price: duurder dan
dutch before lt strong weight: lichter dan
dutch before gt strong weight: zwaarder dan
dutch behind lte: of minder|en minder|of goedkoper|maximaal
dutch behind gte: of meer|en meer|of groter|minimaal
dutch excluding anything noun: zonder|en zonder|maar zonder|maar geen|en geen|vrij van|die geen|niet van
dutch excluding anything names: behalve|behalve in|uitgezonderd
dutch orders price asc: goedkoopste
dutch orders price desc: duurste
dutch orders date desc: nieuwste
dutch words name: uur uren dagen weken maanden jaar
dutch words stop: en of met voor van het een de op naar bij uit om te door
dutch words determiner: het een de van met
dutch words filler: de het een
dutch words connector: met voor van die kost kosten
dutch words also: en of
dutch words ranged: tot en
dutch words opening: tussen
dutch words range: van
dutch words negation: niet geen
swedish before lt strong: mindre än|lägre än
swedish before gt strong: mer än|större än|högre än
swedish before gt weak: över
swedish before lte strong: högst|som mest|maximalt
swedish before lte since: upp till
swedish before gte strong: minst|åtminstone
swedish before gte from: från
swedish before lt strong price: billigare än
swedish before gt strong price: dyrare än
swedish before lt strong weight: lättare än
swedish behind lte: eller mindre|eller billigare|och mindre
swedish behind gte: eller mer|eller större|och uppåt
swedish excluding anything noun: utan|och utan|men utan|men inte|men ingen|som inte är|fri från
swedish excluding anything names: förutom|utom
swedish orders price asc: billigaste
swedish orders date desc: nyaste
swedish words name: timmar dagar veckor månader kronor
swedish words letters: å
swedish words stop: och eller med för till en ett som på av från
swedish words determiner: en ett av för
swedish words connector: med för av som kostar
swedish words also: och eller
swedish words opening: mellan
swedish words ranged: och till
swedish words negation: inte
danish norwegian before lt strong: mindre end|mindre enn|lavere end|lavere enn
danish norwegian before gt strong: mere end|mer enn|større end|større enn|højere end|høyere enn
danish norwegian before lte strong: højst|høyst|maks|maksimalt
danish norwegian before lte since: op til|opp til|opptil
danish norwegian before gte strong: mindst|minst
danish norwegian before gte from: fra
danish norwegian before lt strong price: billigere end|billigere enn
danish norwegian before gt strong price: dyrere end|dyrere enn
danish norwegian before lt strong weight: lettere end|lettere enn
danish norwegian behind lte: eller mindre|eller billigere|og mindre
danish norwegian behind gte: eller mere|eller mer|eller større|og op|og opp
danish norwegian excluding anything noun: uden|uten|og uden|og uten|men uden|men uten|men ikke|som ikke er|der ikke er|
 fri for
danish norwegian excluding anything names: undtagen|unntatt|bortset fra|bortsett fra
danish norwegian orders price asc: billigste
danish norwegian orders date desc: nyeste
danish norwegian words name: timer dager dage uker uger måneder kroner
danish norwegian words letters: å ø æ
danish norwegian words stop: og eller med til en et ei som på av af fra
danish norwegian words determiner: en et ei av af
danish norwegian words connector: med af av som koster
danish norwegian words also: og eller
danish norwegian words opening: mellem mellom
danish norwegian words ranged: og til
danish norwegian words negation: ikke
polish before lt strong: mniej niż|mniejszy niż|mniejsza niż|mniejsze niż
polish before lt weak: poniżej
polish before gt strong: więcej niż|większy niż|większa niż|większe niż
polish before gt weak: powyżej|ponad
polish before lte strong: co najwyżej|najwyżej|maksymalnie|maksimum
polish before lte since: do
polish before gte strong: co najmniej|przynajmniej|minimum|minimalnie
polish before gte from: od
polish before lt moment: przed
polish before gt moment: po
polish before lt strong price: tańszy niż|tańsza niż|tańsze niż|taniej niż
polish before gt strong price: droższy niż|droższa niż|droższe niż
polish before lt strong weight: lżejszy niż|lżejsza niż|lżejsze niż
polish behind lte: lub mniej|i mniej|maksymalnie
polish behind gte: lub więcej|i więcej|wzwyż|minimum
polish excluding anything case: bez|i bez|ale bez|oprócz|z wyjątkiem|za wyjątkiem|ale nie|który nie jest|która nie jest|
 które nie są|nie zawierający|nie zawierająca
polish orders price asc: najtańszy|najtańsza|najtańsze
polish orders price desc: najdroższy|najdroższa|najdroższe
polish orders date desc: najnowszy|najnowsza|najnowsze
polish words letters: ą ć ę ł ń ó ś ź ż
polish words stop: i lub albo ani z ze w we na do dla od po za o przy się jest
polish words determiner: z ze dla
polish words connector: z za w dla kosztujący kosztująca
polish words also: i lub ani albo
polish words opening: między pomiędzy
polish words ranged: a do i
polish words range: od
polish words negation: nie
polish words name: zł złotych
turkish before lte strong: en fazla|en çok|azami|maksimum
turkish before gte strong: en az|asgari
turkish behind lt: altı|altında|altındaki|den az|den ucuz|dan az|dan ucuz|' den az|' den ucuz|den küçük|' dan az
turkish behind gt: üstü|üstünde|üstündeki|üzeri|üzerinde|üzerindeki|den fazla|dan fazla|' den fazla|den büyük
turkish behind lte: ve altı|a kadar|e kadar|ya kadar|ye kadar|' ye kadar|' ya kadar
turkish behind gte: ve üzeri|ve üstü
turkish excluded anything noun: hariç|olmayan|içermeyen
turkish orders price asc: en ucuz
turkish orders price desc: en pahalı
turkish orders date desc: en yeni
turkish words name: tl lira gün hafta dakika saat
turkish words letters: ş ğ ı
turkish words stop: ve veya ile için bir olan
turkish words also: ve veya
russian before lt strong: меньше|менее|не более чем
russian before lt weak: ниже
russian before gt strong: больше|более|свыше
russian before gt weak: выше
russian before lte strong: не более|не больше|не дороже|максимум|не выше|не тяжелее|не шире|не длиннее
russian before lte since: до
russian before gte strong: не менее|не меньше|минимум|хотя бы|не ниже
russian before gte from: от
russian before lt moment: раньше
russian before gt moment: после
russian before gte moment: с
russian before lt strong price: дешевле
russian before gt strong price: дороже
russian before lt strong weight: легче
russian before gt strong weight: тяжелее
russian before lt strong width: уже
russian before gt strong width: шире
russian behind lte: или меньше|и меньше|максимум|или дешевле
russian behind gte: или больше|и больше|минимум|и выше
russian excluding anything case: без|и без|но без|кроме|за исключением|но не|не из|не для|не содержащий|не содержащая
russian orders price asc: самый дешёвый|самая дешёвая|самое дешёвое|самые дешёвые|дешевле всего
russian orders price desc: самый дорогой|самая дорогая|самые дорогие
russian orders date desc: самый новый|самая новая|самые новые
russian words stop: и или ни с со в во на для из от до по за о об у к при не без
russian words determiner: с со из для
russian words connector: с за в стоимостью ценой
russian words also: и или ни
russian words ranged: и до
russian words opening: между
russian words range: от с
chinese before lt strong: 低于|少于|小于|不到
chinese before gt strong: 高于|多于|大于|超过
chinese before lte strong: 不超过|不多于|不高于|最多|至多|不大于
chinese before gte strong: 至少|最少|不少于|不低于|不小于
chinese before lt strong price: 便宜过
chinese behind lte: 以下|以内|之内|或以下|或更少
chinese behind gte: 以上|或以上|或更多|起
chinese excluding anything noun: 不含|不含有|不添加|不要
chinese excluding linked noun: 不带|不是
chinese words name: 是不是 要不要 没有
chinese excluded anything noun: 除外
chinese orders price asc: 最便宜
chinese orders price desc: 最贵
chinese orders date desc: 最新款
chinese words stop: 的
chinese words link: 的 之间 之间的
chinese words ranged: 到 至 ~
chinese words negation: 不要 不
japanese before lte strong: 最大
japanese before gte strong: 最低|最小
japanese behind lt: 未満|より安い|より小さい|より短い|より軽い
japanese behind gt: より高い|より大きい|より長い|より重い|を超える
japanese behind lte: 以下|以内|まで
japanese behind gte: 以上
japanese excluded anything noun: なし|無し|以外|を除く|除く|不使用|を含まない|が入っていない|が入っていません|
 も入っていません|ではない|じゃない
japanese orders price asc: 最安値
japanese words stop: の
japanese words name: はなし おもてなし
japanese words link: の
japanese words ranged: から 〜 ~
"""
"""Languages, table and meaning -> phrases behind bars; of `words`, kind -> words."""

_SHARED: Final = """
ale alla anterior ate cara care caro com como con cost costa dal dan das dei del den door dos fino fra fri inferior kost
kosten lager las libre livre los mas massimo max maximo mayor med men mer mere met minder nas nie non nos para per prima
salvo sea sem sie sin som son sono superior ten til una une utan van var
"""
"""Words that other languages have, too; so have they those of one or two letters in ASCII."""

_ALSO_ELSEWHERE: Final = frozenset(_SHARED.split())

_OTHERS: Final = frozenset({"negating", "asserting", "free", "source", "joint", "spanning", "letters"})
"""Kinds of words that are read in documents alone, in all languages, and what is no word."""

_CODES: Final = {"pl": "polish", "zh": "chinese", "ja": "japanese"}
"""Codes of languages whose stems the engine does not know."""

_SIGNS: Final = frozenset("abcdefghijklmnopqrstuvwxyz'~")
"""Letters and signs, which are no witnesses."""

_ASCII: Final = re.compile(r"(?<!\w)[a-z]+(?!\w)")
_SHORT: Final = 2
_ENOUGH: Final = 2
"""Halves of a witness from which on a language is read."""

_TABLES: Final = ("before", "behind", "excluding", "excluded", "orders")

RUNS: Final = frozenset(each for each in re.findall(f"[{UNSPACED}]+", _TABLE) if len(each) > 1 or each in "的の")
"""The words of languages without spaces, which are cut out of a run of characters."""


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The phrases of some languages. Those of `excluded` stand behind what is not wanted."""

    before: Phrases[Direction]
    behind: Phrases[Bound]
    excluding: Phrases[str]
    excluded: Phrases[str]
    orders: Phrases[tuple[str, Literal["asc", "desc"]]]
    words: Mapping[str, frozenset[str]]

    @cached_property
    def spoken(self) -> frozenset[str]:
        """Every word of it."""
        tables = (self.before, self.behind, self.excluding, self.excluded, self.orders)
        in_phrases = (word for table in tables for phrase in table for word in phrase.split())
        return frozenset(in_phrases).union(*(words for kind, words in self.words.items() if kind not in _OTHERS))


def _mean(table: str, meaning: Sequence[str]) -> object:
    """The meaning of a row's phrases."""
    if table == "before":
        return Direction(cast("Bound", meaning[0]), cast("Strength", meaning[1]), *meaning[2:])
    if table.startswith("exclud"):
        return " ".join(meaning)
    return meaning[0] if table == "behind" else tuple(meaning)


def _read() -> Mapping[str, Vocabulary]:
    rows: dict[str, dict[str, dict[str, Any]]] = defaultdict(lambda: defaultdict(dict))
    for head, said in read_rows(_TABLE):
        names, table, *meaning = re.split(" (before|behind|excluding|excluded|orders|words) ", f"{head} ")
        for name in names.split():
            if table == "words":
                kind = meaning[0].strip()
                rows[name][table][kind] = frozenset((said if kind == "letters" else simplify(said)).split())
            else:
                meant = _mean(table, meaning[0].split())
                rows[name][table].update(dict.fromkeys(simplify(said).split("|"), meant))
    for tables in rows.values():
        # A phrase ends the name before it.
        ending = {phrase.partition(" ")[0] for table in ("before", "excluding", "excluded") for phrase in tables[table]}
        tables["words"]["stop"] = tables["words"]["stop"].union(ending)
    return {name: _build(tables) for name, tables in rows.items()}


def _build(tables: Mapping[str, Mapping[str, Any]]) -> Vocabulary:
    return Vocabulary(
        words=defaultdict(frozenset, tables["words"]), **{each: Phrases(tables[each].items()) for each in _TABLES}
    )


_ALWAYS: Final[Sequence[Phrases[Any]]] = (
    phrases.BEFORE,
    phrases.BEHIND,
    phrases.EXCLUDING,
    Phrases([]),
    phrases.ORDERS,
)
_COMMON: Final = _build({**dict(zip(_TABLES, _ALWAYS, strict=True)), "words": phrases.WORDS})
_FURTHER: Final = _read()


def _invert(said: Mapping[str, Set[str]]) -> Mapping[str, Sequence[str]]:
    """The languages of each thing that one has."""
    return {each: [name for name, has in said.items() if each in has] for each in frozenset().union(*said.values())}


_SPEAKERS: Final = _invert({name: each.spoken - _COMMON.spoken - _SIGNS for name, each in _FURTHER.items()})
"""The languages of a word that is none of English, German or French."""

_WRITERS: Final = _invert({name: each.words["letters"] for name, each in _FURTHER.items()})
"""The languages of a letter that English, German and French don't have."""


def choose(words: Set[str], text: str, lang: str | None = None, at_home: Collection[str] = ()) -> Vocabulary:
    """The vocabulary for a query of these folded words, and with this text.

    `lang` is the query's language, and those in `at_home` are its collection's.
    """
    code = lang[:2].lower() if lang is not None else ""
    if (named := _CODES.get(code) or LANGUAGE_OF.get(code)) is not None:
        return _merge(frozenset({named} & _FURTHER.keys()))
    if not (spoken := _SPEAKERS.keys() & words):
        return _COMMON
    text = text.lower()
    letters, plain = _WRITERS.keys() & {*text}, {*_ASCII.findall(text)}
    halves = Counter({name for letter in letters for name in _WRITERS[letter]})
    for word in spoken:
        is_shared = word in plain and (len(word) <= _SHORT or word in _ALSO_ELSEWHERE)
        halves.update(dict.fromkeys(_SPEAKERS[word], 1 if is_shared else _ENOUGH))
    return _merge(frozenset(name for name, count in halves.items() if count + (name in at_home) >= _ENOUGH))


@lru_cache(64)
def _merge(languages: frozenset[str]) -> Vocabulary:
    """The vocabulary of these languages and of those that are always read."""
    if not languages:
        return _COMMON
    read = [*(_FURTHER[each] for each in sorted(languages)), _COMMON]
    grammar = (_FURTHER[each].words[kind] for each in languages for kind in ("negation", "stop"))
    tables = {name: dict(chain.from_iterable(getattr(each, name).items() for each in read)) for name in _TABLES}
    # The Spanish "no" is no English one: "mi móvil no carga".
    for word in phrases.EXCLUDING.keys() & frozenset().union(*grammar):
        del tables["excluding"][word]
    kinds = {kind for each in read for kind in each.words}
    words = {kind: frozenset().union(*(each.words[kind] for each in read)) for kind in kinds}
    return _build({**tables, "words": words})
