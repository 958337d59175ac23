"""Phrases by which queries say limits, exclusions and orders, in English, German and French.

Some words are those by which documents say that something is not there.
Phrases are folded, their words apart. Further languages are in `vocabulary`. `read_rows` reads all such tables.
`classify_text` tells questions from other texts by these words.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from itertools import filterfalse
from typing import Final, Generic, Literal, NamedTuple, TypeVar, cast

from operators.text.folding import fold_accents

Meaning = TypeVar("Meaning")

Bound = Literal["lt", "lte", "gt", "gte"]

Strength = Literal["strong", "weak", "moment", "since", "from"]
"""Numbers that a phrase takes: `strong` any, `weak` those whose unit or subject is known or that end the text,
`moment` years alone, `since` years, and what `weak` takes with a unit or subject; `from` years with "onwards", and some
units.
"""


class Direction(NamedTuple):
    """The meaning of a phrase before a number; `subject` is what it compares, such as the width."""

    bound: Bound
    strength: Strength
    subject: str = ""


FLIPPED: Final[Mapping[Bound, Bound]] = {"lt": "gte", "gt": "lte", "lte": "gt", "gte": "lt"}
"""The bound that a negated one is: not more than is at most."""

TURNED: Final[Mapping[Bound, Bound]] = {"lt": "gt", "lte": "gte", "gt": "lt", "gte": "lte"}
"""The bound of an age, which grows as its date falls."""

_BEFORE: Final = """
lt strong: less than|fewer than|smaller than|weniger als|kleiner als|moins de|moins d'|a moins de|inferieur a|
 inferieure a|inferieurs a|plus petit que|plus petite que|<
lt weak: under|below|beneath|unter|unterhalb von|sous|en dessous de|au dessous de
gt strong: more than|greater than|larger than|bigger than|exceeding|in excess of|mehr als|grosser als|plus de|plus d'|
 superieur a|superieure a|superieurs a|plus grand que|plus grande que|>
gt weak: over|above|uber|oberhalb von|au dessus de|au dela de
lte strong: at most|at maximum|at the most|a maximum of|maximum of|hochstens|maximal|au plus|au maximum|≤|< =
lte weak: up to|max|max .|maximum|bis zu
lte since: until|till|bis|jusqu' a|jusqu' en|jusqu' au
gte strong: at least|at minimum|at the least|a minimum of|minimum of|upwards of|mindestens|wenigstens|minimal|
 au moins|au minimum|≥|> =
gte weak: min|min .|minimum
gte since: starting at|starting from|as of|ab|von mindestens|a partir de|a partir d'|des
gte from: from
lt moment: before|prior to|earlier than|vor|avant
gt moment: after|later than|nach|apres
gte moment: since|seit|depuis
lt strong price: cheaper than|less expensive than|billiger als|gunstiger als|preiswerter als|moins cher que|
 moins chere que|moins chers que|moins cheres que
gt strong price: more expensive than|pricier than|dearer than|teurer als|plus cher que|plus chere que|plus chers que
gt strong width: wider than|broader than|breiter als|plus large que|plus larges que
lt strong width: narrower than|schmaler als|moins large que|moins larges que|plus etroit que
gt strong height: taller than|higher than|hoher als|plus haut que|plus haute que
lt strong height: lower than|niedriger als|moins haut que|moins haute que|plus bas que
gt strong length: longer than|langer als|plus long que|plus longue que|plus longs que
lt strong length: shorter than|kurzer als|plus court que|plus courte que|moins long que|moins longue que
gt strong depth: deeper than|tiefer als|plus profond que|plus profonde que
lt strong depth: shallower than|flacher als|moins profond que|moins profonde que
gt strong thickness: thicker than|dicker als|plus epais que|plus epaisse que
lt strong thickness: thinner than|slimmer than|dunner als|plus mince que|plus fin que|moins epais que
gt strong weight: heavier than|schwerer als|plus lourd que|plus lourde que
lt strong weight: lighter than|leichter als|plus leger que|plus legere que|moins lourd que|moins lourde que
gt strong date: newer than|more recent than|neuer als|junger als|plus recent que|plus recente que|plus recents que
lt strong date: older than|alter als|plus ancien que|plus ancienne que|plus vieux que|plus vieille que
gt strong speed: faster than|schneller als|plus rapide que
lt strong speed: slower than|langsamer als|plus lent que|moins rapide que
gt strong brightness: brighter than|heller als|plus lumineux que
gt strong noise: louder than|noisier than|lauter als|plus bruyant que|plus bruyante que
lt strong noise: quieter than|leiser als|moins bruyant que|moins bruyante que|plus silencieux que
gt strong power: stronger than|more powerful than|starker als|plus puissant que
"""
"""Bound, strength and subject -> phrases that stand before a number."""

_BEHIND: Final = """
lte: or less|or fewer|or under|or below|or cheaper|or lower|or smaller|or lighter|or shorter|or narrower|or thinner|
 or older|or earlier|or slower|and under|and below|and less|max|max .|maximum|at most|at the most|tops|oder weniger|
 oder kleiner|oder gunstiger|oder billiger|oder leichter|oder kurzer|oder schmaler|oder alter|oder darunter|
 und weniger|und darunter|und kleiner|hochstens|maximal|ou moins|et moins|ou moins cher|au plus|au maximum
gte: or more|or over|or above|or larger|or higher|or bigger|or longer|or wider|or heavier|or taller|or greater|
 or newer|or later|or better|and up|and above|and over|and more|and larger|and bigger|and newer|and later|upwards|
 onwards|minimum|at least|+|oder mehr|oder grosser|oder hoher|oder langer|oder breiter|oder schwerer|oder neuer|
 oder daruber|oder spater|und mehr|und grosser|und neuer|und daruber|aufwarts|mindestens|ou plus|et plus|
 ou plus grand|ou plus recent|au moins|au minimum
"""
"""Bound -> phrases that stand behind a number and its unit."""

_ORDERS: Final = """
price asc: cheapest|least expensive|lowest price|lowest priced|lowest cost|billigst+|gunstigst+|preiswertest+|
 preisgunstigst+|le moins cher|la moins chere|les moins chers|les moins cheres
price desc: most expensive|priciest|dearest|teuerst+|le plus cher|la plus chere|les plus chers|les plus cheres
date desc: newest|most recent|latest|neuest+|neust+|aktuellst+|jungst+|le plus recent|la plus recente|
 les plus recents|les plus recentes
date asc: oldest|earliest|altest+|le plus ancien|la plus ancienne|les plus anciens|les plus anciennes
stars desc: highest rated|best rated|top rated|bestbewertet+|hochstbewertet+|le mieux note|la mieux notee|
 les mieux notes|les mieux notees
stars asc: worst rated|lowest rated|le moins bien note|la moins bien notee
weight asc: lightest|leichtest+|le plus leger|la plus legere|les plus legers|les plus legeres
weight desc: heaviest|schwerst+|le plus lourd|la plus lourde|les plus lourds|les plus lourdes
"""
"""Subject and direction -> phrases; a stem with + has the endings of a German superlative."""

_EXCLUDING: Final = """
anything case: without|excluding|excl|excl .|except|except for|except in|except from|other than|apart from|
 anything but|but not|but no|with no|and no|and not|nor|free of|free from|sans|sauf|sauf a|excepte|hormis|mais pas|
 mais sans|et sans|et pas|pas pres de|pas pres du|pas de|pas d'|pas en|a l' exception de|autre que|autres que
anything names: nicht in der nahe|ausser|ausser in|ausgenommen|aber nicht|nicht von
anything noun: ohne|aber kein|aber keine|aber keinen|aber ohne|und ohne|frei von|nicht aus|nicht fur|nicht mit
noun case: no
noun noun: kein|keine|keinen|keiner|keinem|keines
clause case: not|not close to|not next to|pas
clause names: nicht
"""
"""Kind and reach -> phrases before what is not wanted. Its kind: `noun` is followed by a noun, `clause` stands alone or
behind a verb. Its reach: German writes a thing as one word, so of `noun` the first one ends the name; `names` of makers
and places have several; in other languages a word of another `case` begins something else.
"""

_WORDS: Final = """
filler: a an the about of around roughly approximately circa ca de d' du la le les l' den der die das dem einem einer
 year jahr annee baujahr en in
connector: with for of priced costing at that which is are costs cost mit von fur zu der die das a avec pour de d' in
 en from
determiner: a an the any one ones my our your of for with to in at by near over above under below vom made added have
 having need needs needing contain contains containing include includes including require requires use using de d' du
 des la le les l' un une en a ein eine einen einem einer der die das den dem mein meine meinen fur mit aus von in zu zum
 zur am im uber unter
negation: no not nicht kein keine pas non
either: or oder ou
recipient: for fur pour
also: and or nor und oder et ou ni
relative: that which who whose qui die der das welche welcher welches
auxiliary: is are was were do does did has have had will would can could should may must be shall shalt cannot ist
 sind hat
pronoun: me you him us them it myself i we they she he mich dich uns ihn moi toi
question: what which who why how when where whose can could is are do does did should may will was wie was wer warum
 wo wann welche kann comment pourquoi quand qui que quel quelle ou est
adjective: kr kronor kroner wide high tall long deep thick heavy old broad breit hoch lang tief dick schwer alt
 large haut haute
 longue profond lourd
never: more longer matter one way idea charge only just too so yet sure enough doubt fail stop end problem least most
 less than such other haus betrieb dienst weiteres zweifel doute cher mehr nur
stop: and or nor ni with for from to in on at of by under over above below near as into that which who whose is are
 was were be has have there this these those it if when while than then but not no und oder mit fur von zu bei aus
 auf an um im am ist sind wenn als aber nicht kein et ou avec pour de du des d' a au aux dans sur par en qui que est
 sont si mais pas after before during since until
 through via out off up over nach vor seit wahrend apres avant pendant depuis sans ohne without
property: price weight width height length depth thickness diameter age size volume power duration area speed memory
 stars version
counting: sleeps serves capacity schlafplatze kapazitat couchages capacite
ranged: and to - – und bis et a
spanning: to - – bis a and und et or oder ou x y e do до tot till til 到 至 から 〜 ~
opening: between zwischen entre
range: from von de
size: size taille pointure grosse schuhgrosse konfektionsgrosse
state: down found available able ready valid possible known seen shown sent set read there here responsive online
 compatible
negating: without no not non never zero lacks lacking replaces instead free doesn't don't isn't aren't ohne
 nicht kein keine keinen keiner keinem keines keinerlei nie statt anstatt anstelle ersetzt frei sans pas ni
 aucun aucune jamais remplace remplacent sin sem senza zonder geen niet utan inte uden uten ikke bez nie non nao без не
 不含 不含有 不添加 没有 far
asserting: with but contains contain mit aber enthalt avec mais contient con com met med с z
free: far free frei freie freies freier freien freiem less los lose loses loser losen vrij vrije loos loze fri fritt
 frie fria
 siz suz sız なし 無し 不使用 を含まない が入っていない が入っていません も入っていません フリー レス ゼロ
source: of from von vom
joint: s n en y ies
plant: coconut almond oat soy soya rice cashew peanut cocoa hafer soja mandel kokos reis avoine amande coco riz
letter: xxs xs s m l xl xxl xxxl 2xl 3xl 4xl 5xl
"""


UNSPACED: Final = "\u3005\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff"
"""The characters of Chinese and Japanese, of whose words a text has runs without spaces."""

_SPELT: Final = ("œ", "oe"), ("æ", "ae"), ("ø", "o"), ("ł", "l"), ("\u2019", "'"), ("²", "\ue000")


def simplify(text: str) -> str:
    """The text without case, accents and ligatures."""
    if text.isascii():
        return text.lower()
    plain = text.casefold()
    for written, spelt in _SPELT:
        plain = plain.replace(written, spelt)
    plain = unicodedata.normalize("NFKD", plain)
    return "".join(filterfalse(unicodedata.combining, plain)).replace("\ue000", "²")


class Phrases(dict[str, Meaning], Generic[Meaning]):
    """Phrases with their meanings."""

    def __init__(self, phrases: Iterable[tuple[str, Meaning]]) -> None:
        super().__init__(phrases)
        self.firsts: Final = frozenset(phrase.partition(" ")[0] for phrase in self)
        """The words with which they begin: most words begin none."""


def read_rows(table: str) -> Iterator[tuple[str, str]]:
    """The head and the rest of each row `head: rest` of a table; a line that begins with a space goes on with a row."""
    for line in re.sub(r"(\|?)\n ", lambda end: end[1] or " ", table.strip()).splitlines():
        head, _, rest = line.partition(": ")
        yield head, rest


def _read_directions() -> Iterator[tuple[str, Direction]]:
    for head, phrases in read_rows(_BEFORE):
        bound, strength, *subject = head.split()
        direction = Direction(cast("Bound", bound), cast("Strength", strength), *subject)
        yield from ((phrase, direction) for phrase in phrases.split("|"))


def _read_orders() -> Iterator[tuple[str, tuple[str, Literal["asc", "desc"]]]]:
    for head, phrases in read_rows(_ORDERS):
        subject, direction = head.split()
        for phrase in phrases.split("|"):
            stem = phrase.removesuffix("+")
            inflected = (f"am {stem}en", *(stem + end for end in ("e", "en", "er", "es", "em")))
            for form in (phrase,) if stem == phrase else inflected:
                yield form, (subject, "asc" if direction == "asc" else "desc")


BEFORE: Final = Phrases(_read_directions())
BEHIND: Final = Phrases(
    (each, cast("Bound", head)) for head, phrases in read_rows(_BEHIND) for each in phrases.split("|")
)
ORDERS: Final = Phrases(_read_orders())
EXCLUDING: Final = Phrases((each, head) for head, phrases in read_rows(_EXCLUDING) for each in phrases.split("|"))

_BEGIN_ALIKE: Final = "sans fil|sans contact|sans frontieres|ohne grenzen|without borders|no name|non stop"
NAMES: Final = Phrases((name, name) for name in _BEGIN_ALIKE.split("|"))
"""Names of things that begin like an exclusion."""

OMITTED: Final = Phrases((phrase, phrase) for phrase in ("left out", "left off", "omitted", "weggelassen", "supprime"))
"""Phrases of documents behind what is not there."""

ONWARDS: Final = Phrases((phrase, phrase) for phrase in ("on", "onwards", "upwards", "and up"))
"""Phrases behind a year that make of it the first one."""

WORDS: Final[Mapping[str, frozenset[str]]] = {
    kind: frozenset(simplify(words).split()) for kind, words in read_rows(_WORDS)
}


_KINDS: Final = """
meat fleisch viande: beef pork chicken ham bacon lamb veal turkey sausage salami mince minced steak duck chorizo rind
 rindfleisch schwein huhn hahnchen schinken speck wurst hackfleisch hack lamm pute ente boeuf porc poulet jambon lardons
 veau agneau dinde saucisse saucisson canard
fish fisch poisson: salmon tuna cod trout anchovies herring mackerel lachs thunfisch kabeljau forelle sardellen hering
 makrele saumon thon cabillaud truite anchois hareng
dairy milchprodukte laitages: milk cream butter cheese yoghurt yogurt parmesan mozzarella milch sahne kase joghurt quark
 schmand lait creme beurre fromage yaourt
nuts nut nusse nuss noix: almonds hazelnuts cashews pecans pistachios peanuts mandeln pistazien erdnusse amandes
 noisettes pistaches cacahuetes
alcohol alkohol alcool: wine beer rum whisky vodka brandy liqueur gin wein bier wodka likor schnaps vin biere liqueurs
gluten: wheat barley rye spelt weizen gerste roggen dinkel ble orge seigle
"""
KINDS: Final[Mapping[str, frozenset[str]]] = {
    head: frozenset(kinds.split()) for heads, kinds in read_rows(_KINDS) for head in heads.split()
}
"""Things that people leave out, and the words by which recipes and menus say that they are in it."""

_LACKING: Final = """
vegan vegane veganer veganes veganen vegans: meat fleisch viande fish fisch poisson dairy milchprodukte laitages milk
 milch lait cheese kase fromage butter beurre cream sahne creme eggs egg ei eier oeuf oeufs honey honig miel
vegetarian vegetarische vegetarischer vegetarisches vegetarisch vegetarien vegetarienne veggie: meat fleisch viande fish
 fisch poisson
"""
LACKING: Final[Mapping[str, frozenset[str]]] = {
    word: frozenset(lacks.split()) for words, lacks in read_rows(_LACKING) for word in words.split()
}
"""Words that say what something is without."""

ASKING: Final = ("?", "？", "؟")
"""Signs behind a question."""


def classify_text(text: str) -> Literal["one word", "several words", "question"]:
    """The kind of a query by its text, whose words are what white space divides: a question ends with its mark, or has
    more than two words, of which the first is a question word in English, German or French.
    """
    words = fold_accents(text.casefold()).split()
    if text.rstrip().endswith(ASKING) or (len(words) > 2 and words[0] in WORDS["question"]):
        return "question"
    return "several words" if len(words) > 1 else "one word"
