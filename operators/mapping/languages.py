"""Languages: of a field's values, and of texts, by their most frequent words."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from schemas.settings.qdrant import LANGUAGE_OF

_CODES: Final = "bg cs et fa ga hi hr hy is ja ka ko lt lv mk pl sk sq sr ta te th uk ur vi zh"
_OTHERS: Final = frozenset(_CODES.split())
"""Codes of languages without stems of their own; their words are searched as they are written."""

_CODE: Final = 2
"""Letters of a code."""

_TAG: Final = re.compile(r"([a-z]{2})(?:[-_][A-Za-z0-9]{2,8})*")
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
_WORD: Final = re.compile(r"[^\W\d_]+")
_LEAST: Final = 0.08
"""Share of frequent words from which a text is of a language."""

_MOST_WORDS: Final = 200


def is_language(value: str) -> bool:
    """True for a code in small letters, with a region or without, and for the name of a language.

    Capitals alone are the code of a country.
    """
    if (tag := _TAG.fullmatch(value)) is not None and (tag[1] in LANGUAGE_OF or tag[1] in _OTHERS):
        return True
    return len(value) > _CODE and value.lower() in LANGUAGE_OF


def analyser(value: str) -> str | None:
    """The analyser of a language, by its code or name; None if there is none."""
    return LANGUAGE_OF.get(value.lower()) or LANGUAGE_OF.get(value[:_CODE].lower())


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
