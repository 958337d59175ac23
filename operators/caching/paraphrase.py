"""Paraphrases: texts that ask the same thing, as far as their words can tell.

A vector cannot tell: with MiniLM "what does error code E1235 mean" has a cosine above 0.92 to the question about E1234.

- Two texts are paraphrases if, without their fillers, both are the same words in the same order. So the relation is
  reflexive, symmetric and transitive.
- A filler is an article, a word of politeness, punctuation around a word, or a frame that asks the same thing, such as
  "what is" and "can you tell me". Everything else counts: numbers, identifiers, names, negations, directions, question
  words, comparatives, units, inflections. A short form counts as its long form: "isn't" as "is not".
- Where a word may be a filler or not, it counts: "a" after a noun is a label ("vitamin A"), and "hello" without a mark
  after it may be a title. Two texts that ask the same in other words are therefore often told apart. That costs time;
  to take two questions for one would answer the wrong one.
- The fillers are English. Texts of other languages are paraphrases if they differ in case and punctuation alone.

Own; the lists of words are closed on purpose.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

from schemas.texts import nfkc

_MARKS: Final = frozenset(".,;:。")
"""These end a word or a text, and say nothing if they follow a letter, a digit or one of _CLOSING_MARKS."""

_CLOSING_MARKS: Final = frozenset(")]}%'\"”’")

_QUESTION_MARKS: Final = frozenset("?؟")

_ASKING: Final = r"(?=(?:what|who|whom|whose|where|when|why|which|how)(?:'s)?\b)"

_OPENING: Final = re.compile(
    "(?:"
    r"(?:hi|hello|hey|good (?:morning|afternoon|evening|day))(?: there| all| everyone| team)?[,.!] "
    # Doubled it is no politeness.
    r"|(?:please|pls|plz|kindly),? (?!please\b)"
    r"|(?P<request>(?:(?:can|could|would|will) you (?:(?:please|kindly) )?)?(?:tell me|let me know),? "
    r"|(?:do you know|i (?:want|need) to know|i(?: would|'d) like to know|i wonder|i(?:'m| am| was) wondering),? "
    rf"{_ASKING})"
    ")*"
)

_POLITE: Final = "please|pls|plz"
_THANKS: Final = "(?:(?:many )?thanks|thank you)(?: a lot| (?:very|so) much)?(?: in advance)?"

_CLOSING: Final = re.compile(rf" (?:{_POLITE}|(?<=[,.;!?] )(?:{_THANKS}))$")
_LONGEST_CLOSING: Final = 40
"""Characters; no closing is longer, so that a long text isn't searched again and again."""

_MENTIONING: Final = re.compile("say|says|said|saying|words?|spell|called?|songs?|to|will|not|never")
"""After these words, `please` is the subject of the question."""

_BEFORE_ARTICLE: Final = re.compile(
    "is|are|was|were|be|been|being|am|what's|where's|when's|how's|who's|has|have|had|does|do|did|there"
    "|of|for|in|on|at|with|from|by|as|to|into|onto|about|under|over|between|without|than|like|through|during|within"
    "|and|or|if|when|because|while|that"
    "|get|find|make|use|create|buy|write|need|want|cancel|change|add|delete|send|take|give"
)
"""After these, `a` and `an` are articles. After any other word `a` may be a label, as in "hepatitis A"."""

_AFTER_ARTICLE: Final = frozenset({"few", "little", "front", "who"})
"""Before these an article changes the meaning: "few", "a few"; "in front", "in the front"; "who", "The Who"."""

_AFTER_LABEL: Final = re.compile(
    "level|and|or|in|on|at|of|for|to|from|with|by|as|than|is|are|was|were|does|do|did|has|have"
)
"""Before these `a` is a label, as in "an essay about a and b"."""

_DETERMINERS: Final = re.compile("an?|the|my|our|your|his|her|its|their")

_SHORT: Final = {
    "can't": "can not",
    "cannot": "can not",
    "won't": "will not",
    "shan't": "shall not",
    "what's": "what is",
    "whats": "what is",
    "where's": "where is",
    "when's": "when is",
    "how's": "how is",
    "i'm": "i am",
}
_SHORT_ENDS: Final = {"n't": " not", "'re": " are", "'ve": " have", "'ll": " will"}

_BE: Final = frozenset({"is", "are", "was", "were"})
_VERB: Final = re.compile("is|are|was|were|do|does|did|can|could|will|would|shall|should|may|might|must|has|have|had")
"""The words after the question word of a direct question."""

_INDIRECT: Final = frozenset({"what", "who", "where", "when"})
_WHAT: Final = frozenset({("what", "is"), ("what", "are")})
_HOW_TO: Final = frozenset({("do", "i"), ("can", "i"), ("i", "can")})


def paraphrases(one: str, other: str) -> bool:
    """True if both texts ask the same thing, as far as their words can tell."""
    return wording(one) == wording(other)


def wording(text: str) -> tuple[str, ...]:
    """The words of a text that count, in their order; all of its words if they are nothing but fillers."""
    folded = _fold(text)
    body, requested = _body(folded)
    words = list(_words(body.split()))
    if requested and len(words) > 2 and words[0] in _INDIRECT and words[-1] in _BE and not _VERB.fullmatch(words[1]):
        # "Tell me what the capital of France is" asks what "What is the capital of France" asks.
        words.insert(1, words.pop())
    if tuple(words[:2]) in _WHAT:
        words = words[2:]
    elif words[:1] == ["how"] and tuple(words[1:3]) in _HOW_TO:
        words[1:3] = ["to"]
    return tuple(words) or tuple(folded.split()) or tuple(text.split())


def _fold(text: str) -> str:
    """The text in NFKC and in lower case, its words separated by single spaces.

    A capital A within the text stays, since it is no article.
    """
    if not text.isascii():
        # NFKC would make one number of 10² and 102.
        text = nfkc(text.translate({ord(each): f"^{each}" for each in set(text) if _is_raised(each)}))
    words = text.lstrip(" ¿¡").replace("’", "'").replace("‐", "-").split()
    shouted = text.isupper()
    # `casefold` would make one word of "Maße", measures, and "Masse", a mass.
    return " ".join(word if word == "A" and index and not shouted else word.lower() for index, word in enumerate(words))


def _is_raised(character: str) -> bool:
    return unicodedata.decomposition(character).startswith(("<super>", "<sub>", "<fraction>"))


def _body(folded: str) -> tuple[str, bool]:
    """The text without its politeness and its final marks; True if it begins with a request to be told."""
    body = _strip_marks(folded)
    while (closing := _CLOSING.search(body, len(body) - _LONGEST_CLOSING)) is not None:
        rest = body[: closing.start()]
        if _MENTIONING.fullmatch(rest, rest.rfind(" ") + 1):
            break
        body = _strip_marks(rest)
    opening = _OPENING.match(body)
    return (body[opening.end() :], opening["request"] is not None) if opening is not None else (body, False)


def _strip_marks(text: str) -> str:
    """The text without the marks that end it; `5!` and `n!` are numbers, and `cd ..` is a command."""
    end = len(text)
    while end:
        last, before = text[end - 1], text[end - 2 : end - 1]
        exclaimed = last == "!" and text[max(end - 3, 0) : end - 1].isalpha() and end > 2
        if last == " " or last in _QUESTION_MARKS or exclaimed or _is_mark(last, before):
            end -= 1
        else:
            break
    return text[:end]


def _is_mark(last: str, before: str) -> bool:
    return last in _MARKS and (before.isalnum() or before in _CLOSING_MARKS)


def _words(given: Sequence[str]) -> Iterator[str]:
    """The words without marks and articles, short forms in full."""
    for index, word in enumerate(given):
        before = given[index - 1] if index else ""
        after = given[index + 1] if index + 1 < len(given) else ""
        if _is_article(word, before, after):
            continue
        bare = word[:-1] if _is_mark(word[-1], word[-2:-1]) else word
        if bare == "who's" and _DETERMINERS.fullmatch(after):
            # Before a participle it may be "who has".
            bare = "who is"
        yield from _in_full(bare).lower().split()


def _is_article(word: str, before: str, after: str) -> bool:
    if not after or after in _AFTER_ARTICLE:
        return False
    if word == "the":
        return True
    return word in {"a", "an"} and bool(_BEFORE_ARTICLE.fullmatch(before)) and not _AFTER_LABEL.fullmatch(after)


def _in_full(word: str) -> str:
    if word in _SHORT:
        return _SHORT[word]
    for end, full in _SHORT_ENDS.items():
        if word.endswith(end) and word != end:
            return word.removesuffix(end) + full
    return word
