"""Roles: which field of a sample of documents is the id, the title, the text, and so on; decided by its values.

Rules:
- An id is there in nearly all documents, and is nearly always another. A number counts as one. Of several such fields
  the name and the position decide, and without any the content does.
- The text is the field with the most words. The title is a short text of most documents, nearly always another, whose
  words the text repeats.
- Times before or at each other time of their document are those of creation; a name that says so goes before.
- Two columns of degrees, of one beginning of their names, are a point.
- A language is a code or a name in a field, or else that of a text's most frequent words.
- A namespace parts an index, so that a query sees one part: a field is one only if its name says so.
- Names help where several fields have the same values' shape. No field has a role by its name alone.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from operators.mapping.formats import NEARLY_ALL, few, read_value
from operators.mapping.profile import IDENTIFIER, MEASURE, NUMBER, PROSE, SHORT, TIME, FieldProfile
from schemas.settings.qdrant import LANGUAGE_OF
from schemas.texts import nfc

_ID_NAMES: Final = r"_?id|uuid|guid|_?key|nid|pk|objectid|document_?id|doc_?id"
_ID_ENDS: Final = r"(?-i:.*(?:[_\W]|(?<=[a-z]))(?:id|ID|Id|nr\.?|no\.?|key|number|nummer|code))"
_TITLES: Final = (
    r".*(?:title|headline|subject|heading|label|^name|[_\W]name$|question|summary|titel|betreff|titre|nom$|titulo|título"
    r"|nombre|titolo|bezeichnung|produkt(?:name)?$|product(?:_?name)?$|naam|namn|navn|nome).*"
)
_CREATED: Final = (
    r".*(?:creat|publi|post(?:ed)?_|^date$|added|sent|erstellt|ver(?:ö|oe)ff|datum|cr[eé][eé]|creado|^ts$|timestamp).*"
)
_UPDATED: Final = r".*(?:updat|modif|chang|edit|revis|geänd|geaend|aktualis|mis_a_jour|actualiz).*"
_TENANTS: Final = r"(?:tenant|mandant|organi[sz]ation|workspace|account)(?:[_-]?(?:id|name|key))?"
_CODES: Final = "bg cs et fa ga hi hr hy is ja ka ko lt lv mk pl sk sq sr ta te th uk ur vi zh"
_OTHERS: Final = frozenset(_CODES.split())
"""Codes of languages without stems of their own; their words are searched as they are written."""

_CODE: Final = 2
"""Letters of a code."""

_CODE_OF: Final = re.compile(r"([a-z]{2})(?:[-_][A-Za-z0-9]{2,8})*")
_FREQUENT: Final = {
    language: frozenset(words.split())
    for language, words in {
        "english": "the and of to is in for you that with are it on this be or your can not from as if",
        "german": "der die das und ist nicht ein eine sie zu mit für den von auf im dem werden wenn oder wird sich",
        "french": "le la les et est des une vous pour dans que qui sur avec pas ce au du ne ou votre sont",
        "spanish": "el los las y es una para que con por del se no su al como más lo si está son puede",
        "italian": "il di che è una per non con sono del la le si della nel dei alla più gli come se può",
        "portuguese": "o os as e é um uma para que com não do da em se no na por mais seu como você",
        "dutch": "de het een en van is niet op voor met zijn dat te aan je worden als ook bij of naar kan",
        "swedish": "och att det är en som på för med av den till inte om har du kan ett eller från din så",
        "danish": "og at det er en som på for med af den til ikke om har du kan et eller fra din så de",
        "norwegian": "og at det er en som på for med av den til ikke om har du kan et eller fra din så de",
        "finnish": "ja on ei se että kun voi tai myös jos ovat sen niin kuin mutta olla tämä joka sinun",
        "russian": "и в не на что с по как это для из к от или если вы при его можно до так",
        "turkish": "ve bir bu için ile da de olarak daha çok en var olan sonra değil gibi kadar veya",
    }.items()
}
_LANGUAGES: Final = r"(?:lang|sprache|idioma|locale|lingua|taal|språk).*"
_DEGREES: Final = {
    "lat": (90, re.compile(r"(.*?)(?:lat(?:itude)?|latitud|breitengrad)", re.IGNORECASE)),
    "lon": (180, re.compile(r"(.*?)(?:lng|long?(?:itude)?|longitud|l(?:ä|ae)ngengrad)", re.IGNORECASE)),
}
"""Half of a point -> its most degrees, and its names behind what may stand before both."""

_SLUG: Final = re.compile(r"[^\s]{4,}")

_ALL: Final = 0.995
_MOST_TITLE: Final = 20.0
"""Words of a title at most, on average."""

_LEAST_TITLE: Final = 1.5
"""Score of a title at least."""

_FEW_EQUAL: Final = 0.01
"""Share of documents whose content others have, up to which these are chance."""

_SHARED: Final = 0.5
"""Uniqueness below which a field's values are those of other documents, too: colours are, and serial numbers not."""

_MOST_APART: Final = 0.8
"""Share of the documents of equal contents that fields tell apart if these are variants."""

_SAMPLE: Final = 200
"""Documents whose titles are looked up in their texts."""


def find_id(fields: Sequence[FieldProfile]) -> FieldProfile | None:
    """The field that names the documents; None if there is none."""
    return max(filter(_may_name, fields), key=_id_score, default=None)


def _may_name(each: FieldProfile) -> bool:
    if each.presence < NEARLY_ALL or each.uniqueness < 0.8 or each.listed or each.form in ("decimal", "decimal_comma"):
        return False
    if any(not isinstance(value, str | int) or isinstance(value, bool) for value in each.values):
        return False
    odd = sum(len(text) > 256 or len(text.split()) != 1 for text in each.texts)
    return each.kind.identifies is not None and odd <= few(len(each.texts))


def _id_score(each: FieldProfile) -> float:
    named = 2.0 if each.has_name(_ID_NAMES) else 0.8 if each.has_name(_ID_ENDS) else 0.0
    place = 0.1 * each.position + 0.3 * (len(each.names) - 1)
    return 4 * each.presence * each.uniqueness + named + (each.kind.identifies or 0.0) - place


def find_text(fields: Sequence[FieldProfile]) -> FieldProfile | None:
    """The field with the most words; None if no field has three on average."""
    texts = [each for each in fields if each.kind in {PROSE, SHORT} and not each.listed and each.words >= 3]
    return max(texts, key=lambda each: each.words * each.presence, default=None)


def find_title(
    fields: Sequence[FieldProfile], text: FieldProfile | None, id_: FieldProfile | None
) -> FieldProfile | None:
    """The field with the documents' titles; the only short text of a document may be its id, too."""
    scores = {each: _title_score(each, text) for each in fields if each is not text and _may_be_title(each)}
    best = max(scores, key=scores.__getitem__, default=None)
    if best is not None and scores[best] >= _LEAST_TITLE:
        return best
    return id_ if id_ is not None and id_.kind is SHORT and text is not None else None


def _may_be_title(each: FieldProfile) -> bool:
    """True for short texts that tell documents apart; those of a field that is called a title may repeat: jobs do."""
    if each.kind not in {PROSE, SHORT, IDENTIFIER} or each.listed or not each.texts:
        return False
    different = 0.05 if each.has_name(_TITLES) and each.words >= 1.5 else 0.5
    return each.words <= _MOST_TITLE and each.presence >= 0.5 and each.uniqueness >= different


def _title_score(each: FieldProfile, text: FieldProfile | None) -> float:
    slug = each.share(_SLUG.fullmatch)
    named = float(each.has_name(_TITLES))
    repeated = _repetition(each, text) if text is not None else 0.0
    long = max(0.0, each.words - 12) / 10
    identifiers = float(each.kind is IDENTIFIER)
    return each.uniqueness + each.presence + named + repeated - slug - long - identifiers - 0.02 * each.position


def _repetition(title: FieldProfile, text: FieldProfile) -> float:
    """The mean share of a title's words that its document's text has, too."""
    shares = []
    for row in list(title.rows)[:_SAMPLE]:
        words, content = set(re.findall(r"\w{4,}", str(title.rows[row]).lower())), str(text.rows.get(row, "")).lower()
        if words and content:
            shares.append(sum(word in content for word in words) / len(words))
    return sum(shares) / len(shares) if shares else 0.0


def find_times(fields: Sequence[FieldProfile], now: float) -> tuple[FieldProfile | None, FieldProfile | None]:
    """The fields with the times of creation and of the last change; `now` in Unix seconds."""
    times = [each for each in fields if each.kind is TIME and each.presence >= 0.5]
    created = next((each for each in times if each.has_name(_CREATED)), None)
    updated = next((each for each in times if each.has_name(_UPDATED) and each is not created), None)
    others = [each for each in times if each is not created and each is not updated and not each.future(now)]
    if created is None:
        # Of several times the one that is before most others.
        before = [each for each in others if updated is None or each.precedes(updated)]
        created = max(before, key=lambda each: sum(map(each.precedes, before)), default=None)
    if updated is None and created is not None:
        updated = next((each for each in others if each is not created and created.precedes(each)), None)
    return created, updated


def find_language(fields: Sequence[FieldProfile]) -> FieldProfile | None:
    """The field with each document's language."""
    texts = [each for each in fields if not each.listed and each.texts and each.distinct <= 30]
    named = (each for each in texts if each.has_name(_LANGUAGES))
    found = [each for each in named if each.share(lambda text: is_language(text.lower())) >= NEARLY_ALL]
    return next(iter([*found, *(each for each in texts if each.share(is_language) >= NEARLY_ALL)]), None)


def find_namespace(fields: Sequence[FieldProfile]) -> FieldProfile | None:
    """The field with each document's namespace: its own name, or that of a tenant with few values."""
    own = next((each for each in fields if each.names == ("namespace",)), None)
    if own is not None:
        return own if own.presence >= _ALL and _names_namespaces(own) else None
    tenants = (each for each in fields if each.has_name(_TENANTS) and each.presence >= _ALL)
    return next((each for each in tenants if _names_namespaces(each) and 2 <= each.distinct <= each.total / 5), None)


def _names_namespaces(each: FieldProfile) -> bool:
    return not each.listed and all(
        (isinstance(value, str) and len(value) <= 256) or type(value) is int for value in each.values
    )


def find_points(fields: Sequence[FieldProfile]) -> dict[tuple[str, ...], dict[str, FieldProfile]]:
    """The points that two fields with degrees are, by the names before them: those of objects, and what both share."""
    found: dict[tuple[str, ...], dict[str, FieldProfile]] = {}
    for each in (each for each in fields if each.kind is NUMBER and not each.listed):
        numbers = [read_value(each.form, value) if each.form else value for value in each.values]
        for half, (most, names) in _DEGREES.items():
            if (named := names.fullmatch(each.names[-1])) and all(abs(number) <= most for number in numbers):
                found.setdefault((*each.names[:-1], named[1].strip("_- ").lower()), {})[half] = each
    return {before: halves for before, halves in found.items() if len(halves) == len(_DEGREES)}


def rank_searched(fields: Iterable[FieldProfile]) -> list[FieldProfile]:
    """The fields whose words people search for, those first that say most about most documents."""
    worth = (each for each in fields if each.weight)
    return sorted(
        worth, key=lambda each: (-each.weight, -each.presence * min(1.0, each.uniqueness * 10), each.position)
    )


def find_variants(
    others: Iterable[FieldProfile], contents: Sequence[FieldProfile], id_: FieldProfile | None
) -> list[FieldProfile]:
    """The fields that tell documents of equal contents apart, such as the size and the colour of an article.

    Empty where hardly any contents are equal, or where many of these documents are copies.
    """
    # Of an id's versions the last: they are one document.
    rows = {id_.rows.get(row, row) if id_ is not None else row: row for each in contents for row in sorted(each.rows)}
    content = {row: tuple(str(each.rows.get(row, "")).strip() for each in contents) for row in rows.values()}
    counts = Counter(content.values())
    equal = [row for row, found in content.items() if counts[found] > 1]
    if len(equal) <= _FEW_EQUAL * len(content):
        return []

    shared = [each for each in others if not each.listed and each.uniqueness < _SHARED]
    # A copy without a field differs in nothing by it.
    same = {(each, content[row]): each.rows[row] for each in shared for row in equal if row in each.rows}

    def count_apart(*fields: FieldProfile) -> int:
        values = ([str(each.rows.get(row, same.get((each, content[row])))) for each in fields] for row in equal)
        return len({(content[row], *found) for row, found in zip(equal, values, strict=True)})

    words = [each for each in shared if each.kind in {SHORT, MEASURE}]
    numbers = [each for each in shared if each.kind in {NUMBER, IDENTIFIER}]
    chosen = list[FieldProfile]()
    for each in sorted(words, key=count_apart, reverse=True):
        if count_apart(*chosen, each) > count_apart(*chosen):
            chosen.append(each)
    # Numbers tell anything apart, such as stocks, so sizes that are numbers come last, and the one with fewest values.
    tries = (chosen, *([*chosen, each] for each in sorted(numbers, key=lambda each: each.distinct)))
    return next((each for each in tries if count_apart(*each) >= _MOST_APART * len(equal)), [])


_ACCENTED: Final = re.compile("(?![äöüßÄÖÜ×÷])[\u00c0-\u024f\u1e00-\u1eff]")
_WORD: Final = re.compile(r"[^\W\d_]+")
_LEAST: Final = 0.08
"""Share of frequent words from which a text is of a language."""

_MOST_WORDS: Final = 200


def is_language(value: str) -> bool:
    """True for a code in small letters, with a region or without, and for the name of a language.

    Capitals alone are the code of a country.
    """
    if (tag := _CODE_OF.fullmatch(value)) is not None and (tag[1] in LANGUAGE_OF or tag[1] in _OTHERS):
        return True
    return len(value) > _CODE and value.lower() in LANGUAGE_OF


def analyser(value: str) -> str | None:
    """The analyser of a language, by its code or name; None if there is none."""
    return LANGUAGE_OF.get(value.lower()) or LANGUAGE_OF.get(value[:_CODE].lower())


def has_accents(text: str) -> bool:
    """True if a Latin letter has an accent or a stroke; umlauts have two letters instead, with or without folding."""
    return not text.isascii() and _ACCENTED.search(nfc(text)) is not None


def detect(text: str) -> str | None:
    """The language of a text; None where too few of its words are frequent ones of any."""
    words = Counter(word.lower() for word in _WORD.findall(text[:4000])[:_MOST_WORDS])
    total = words.total()
    counts = {name: sum(words[word] for word in frequent) for name, frequent in _FREQUENT.items()}
    best = max(counts, key=counts.__getitem__)
    return best if total and counts[best] >= max(2, _LEAST * total) else None


def detect_all(texts: Iterable[str]) -> Sequence[tuple[str, int]]:
    """Languages of texts with the number of texts, the most frequent first."""
    return Counter(filter(None, map(detect, texts))).most_common()
