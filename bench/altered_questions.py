"""Questions of a data set, altered by rule: into others with other answers, and into paraphrases.

The rules change a number, a name, a negation, a direction, or the order of two names; or they add and drop fillers. The
label holds, however clumsy a question they make.
"""

import re
from calendar import month_name
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from bench.question_pairs import Pair

_PAIRS: Final = (("before", "after"), ("above", "below"), ("more", "less"), ("high", "low"))
_OPPOSITES: Final = {
    **dict(_PAIRS),
    **{other: one for one, other in _PAIRS},
    "with": "without",
    "first": "second",
    "second": "third",
    "last": "next",
    "most": "least",
}
_MONTHS: Final = frozenset(month_name)
_NAME: Final = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}\b")
_LISTED: Final = re.compile(r"('s)?,?( and| or)? ")
"""Between two names whose order says nothing."""

_LEAST: Final = 3
"""A word is a name if so many questions of the data set have it."""

_ASKING: Final = re.compile("(what|who|where|when|why|which|how) ", re.IGNORECASE)
_AFFIRMED: Final = re.compile(
    r"\b(?:(?:did|does|do) [A-Z][a-z]+(?= (?!and\b|not\b)[a-z])|(?:has|have|can|must)(?= be))"
)
_POLITE: Final = ("please, {}?", "{}, please", "Hello, {}?", "{}? Thanks!", "{} ?", "{}.")


def altered(questions: Sequence[str]) -> list[Pair]:
    """Pairs of each question and what the rules make of it, each once."""
    asked = list(dict.fromkeys(text.rstrip(" .?") + "?" for text in questions))
    found = Counter(name for text in asked for name in set(_NAME.findall(text)) - _MONTHS)
    names = sorted(name for name, count in found.items() if count >= _LEAST)
    made = (pair for text in asked for pair in (*_close(text, names), *_same(text)))
    return [pair for pair in dict.fromkeys(made) if pair.cached != pair.asked]


def _close(text: str, names: Sequence[str]) -> Iterator[Pair]:
    if (number := re.search(r"\d+", text)) is not None:
        yield _replaced("number", text, number, str(int(number[0]) + 1))
    found = [each for each in _NAME.finditer(text) if each[0] in names]
    if found and len(names) > 1:
        yield _replaced("name", text, found[0], names[(names.index(found[0][0]) + 1) % len(names)])
    if len(found) > 1:
        one, other = found[:2]
        between = text[one.end() : other.start()]
        if one[0] != other[0] and _LISTED.fullmatch(between) is None:
            yield Pair("order", False, text, text[: one.start()] + other[0] + between + one[0] + text[other.end() :])
    word = next((each for each in re.finditer(r"\w+", text) if each[0] in _OPPOSITES), None)
    if word is not None:
        yield _replaced("direction", text, word, _OPPOSITES[word[0]])
    # "Did he not go?" may ask what "Did he go?" asks; "Who did not go?" doesn't.
    if _ASKING.match(text) and (affirmed := _AFFIRMED.search(text)) is not None:
        yield _replaced("negation", text, affirmed, f"{affirmed[0]} not")


def _replaced(kind: str, text: str, at: re.Match[str], instead: str) -> Pair:
    return Pair(kind, False, text, text[: at.start()] + instead + text[at.end() :])


def _same(text: str) -> Iterator[Pair]:
    bare = text.removesuffix("?")
    yield from (Pair("politeness", True, text, each.format(bare)) for each in _POLITE)
    if _ASKING.match(bare):
        yield Pair("frame", True, text, f"can you tell me {bare[0].lower()}{bare[1:]}?")
    yield Pair("article", True, text, text.replace(" the ", " "))
    yield Pair("case", True, text, text.lower())
