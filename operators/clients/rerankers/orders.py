r"""The order that a chat model's answer names: numbers of the documents, and nothing else that is a number in it.

An answer is read as the first of these that it is:
- JSON: a list of numbers in an object, such as `{"ranking": [3, 1]}`, or a list of objects with a document's number
  each; one such object is a pick. Scores, ranks and reasons in it are not read.
- A Markdown table: the column of the documents.
- A list that numbers itself: where `1. 4`, `2. 7`, `3. 1` begin lines or follow each other in one, and their first
  numbers run from 1 without a gap, these are ranks and the second numbers the documents: 4 7 1. So `1. 3` alone is 3,
  but `3. 1` is 3 1, and so is `1. 3, 2` 1 3 2. Ranks may be ordinals: `1st: 4, 2nd: 7`.
- Lists: lines or sentences that hold numbers and little else, in any form: `[3] > [1] > [2]`, `3, 1, 2`, `3. 1. 2.`,
  `Document 3, then document 1`. A remark on a number isn't read: what stands in parentheses, behind a colon or a dash,
  from `because` on; a score such as 9/10, 90 % or `score: 9`. What a heading such as `Final answer:` announces comes
  before all else; from one such as `Explanation:` on, and behind `not relevant:`, nothing is read.
- Prose: if there is no list, the numbers in its sentences, without those that say of a document that it isn't
  relevant. Prose that begins with `none` names nothing.

In both of these `1-5`, `1–5`, `1 to 5` and `1 through 5` name all between, too: two numbers of the list, the smaller
first, and no part of a longer chain such as `3-1-2`.

A document's number is a run of the digits 0-9 from 1 to the length of the list. Signed numbers, numbers with a fraction
or an exponent, other scripts' digits and numbers out of range name nothing; of a repeated number the first counts.
Without a document's number the word `none`, or an empty list in JSON or alone, says that no document is relevant. An
answer with neither is a bad response, as is one of over 20,000 characters.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from schemas.errors import BackendBadResponse

MAX_ANSWER: Final = 20_000
"""Most characters of an answer; a longer one is no answer."""

_GREATEST: Final = 1e9
"""Greater than any document's number."""

_NUMBER: Final = re.compile(
    r"(?<!\w)[-−+]\.?\d[\d.]*|(?<![.\w])\.\d+|\d+(?:\.\d+)*(?:[eE][-+]?\d+|(?!(?:st|nd|rd|th)\b)[^\W\d_]+)?",
    re.IGNORECASE,
)
_RANK_END: Final = r"(?:[.):]|(?:st|nd|rd|th)[*_]*(?:[ ]place)?[ ]?[:=–—-])"
_NUMBERED: Final = re.compile(
    rf"""
    (?<![^\s*_,;])([0-9]{{1,9}}){_RANK_END}[*_]*[^\S\n]+         # 1. or 1st:
    [\[(#*_]*(?:(?:document|doc)[ ]?[\[(#]?)?([0-9]+)(?![.,]?\w|/)  # [4], Document 4
    (?=[\])*_]*(?:[,;]?\s+[*_]*[0-9]+{_RANK_END}[*_]*\s|[.]?\s*(?:$|[:(])|\s+[–—-]))  # the next item, an end, a remark
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_BULLETS: Final = " \t\r*_>-,;])"
"""Characters that may stand before an item, in its line or after the one before it."""

_JOINT: Final = re.compile(r"[-‐‑–]|\s+(?:to|through|thru)\s+", re.IGNORECASE)

_EMPTY: Final = re.compile(r"\s*+(?:```\w*+|[`*]*+)\s*+\[\s*+\]\s*+[`*]*+\s*+")
_NONE: Final = re.compile(r"(?<![^\W_])none(?![^\W_])", re.IGNORECASE)
_NONE_FIRST: Final = re.compile(r"[\s*_\"'`]*none(?![^\W_])", re.IGNORECASE)

_LABEL: Final = r"(?:(?:document|doc|candidate|passage|item|text|result)s?\s?(?:(?:no|nr|number|id)\b\.?\s?)?)"
_LIST_WORDS: Final = re.compile(
    rf"{_LABEL}|(?:(?:the|is|are|and|then|or|followed|by|order|ranking|ranked|answer|final|my|first|second|third|fourth|fifth|last|finally|next|none"
    r"|best|most|least|only|relevant|choice|pick|to|boxed|no|nr|id|number|st|nd|rd|th|d)(?![^\W\d_]))",
    re.IGNORECASE,
)
_LETTER: Final = re.compile(r"[^\W\d_]")

_ANSWER_HEADING: Final = re.compile(
    r"^[ \t*_#>`-]{0,20}(?:(?:the|my|so|therefore|thus)\b,?\s)?(?:final|overall|best)?\s?(?:answer|ranking|order)\b"
    r"[^:\n\d]{0,30}:",
    re.IGNORECASE | re.MULTILINE,
)
_EXPLANATION: Final = re.compile(
    r"^[ \t*_#>`-]{0,20}(?:brief\s|short\s)?"
    r"(?:explanations?|reasoning|reasons?|rationale|justifications?|notes?|why|comments?|analysis|details)\b"
    r"[^:\n\d]{0,30}(?::|[*_\s]*$)",
    re.IGNORECASE | re.MULTILINE,
)
_SENTENCE: Final = re.compile(r"\n|(?<=[.!?])[ \t]+(?=[\"'*_]{0,3}[^\W\d_])")
_NEGATIVE: Final = re.compile(
    r"\b(?:not|isn't|aren't|doesn't|don't|irrelevant|unrelated|non-relevant|off-topic|exclud\w+|omit\w+|left out"
    r"|ignor\w+|without|neither|nor|no relevance)\b",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"[^\W\d_]{2}")
_LABELLED: Final = re.compile(rf"[\s*_#>`-]*{_LABEL}[\[(#*_]*\d+[\])*_]*\s*:", re.IGNORECASE)

_SCORES: Final = re.compile(
    r"(?<![\d/.])\d+(?:\.\d+)?\s?(?:/|out\sof)\s?\d+(?:\.\d+)?(?![\d/])"
    r"|(?<![\d.])\d+(?:\.\d+)?\s?%"
    r"|\b(?:scor(?:e|es|ed|ing)|relevance|confidence|rating|rated|similarity|probability)\b"
    r"[\s:=*_\"\']{0,4}(?:is|of|at)?[\s:=*_]{0,4}\d+(?:\.\d+)?"
    r"|\b(?:top|all|of(?:\sthe)?)[ -]\d+\b"
    r"|\b\d+\s(?:(?:most\s)?relevant\s)?(?:documents|docs|candidates|passages|items|results)\b",
    re.IGNORECASE,
)
_IN_PARENTHESES: Final = re.compile(r"(\d[\])*_\"'`]{0,4})\s{0,3}\([^()\n]*\)")
_PAIR: Final = re.compile(
    r"(\d[\])*_\"'`]{0,4})\s{0,3}[:=]\s{0,3}\d+(?:\.\d+)?(?![\d.]*\s{0,3}(?!and\b|then\b)[^\W\d_])"
)
_ITEM: Final = rf"{_LABEL}?[\[(#*_]{{0,4}}\d+[\])*_]{{0,4}}"
_OPENS: Final = (
    rf"(?:\s{{0,3}}:|\s[-–—]+\s(?!\s*{_ITEM}\s{{0,3}}(?:[-–—>,]|$))|\s(?:because|since|as|due|which|with|for)\s)"
)
_REMARK: Final = re.compile(
    rf"(\d[\])*_\"'`]{{0,4}}){_OPENS}[^\n]*?(?=[,;.]\s{{1,3}}(?:and\s|then\s)?{_ITEM}{_OPENS}|$)",
    re.IGNORECASE,
)
_HEADED: Final = re.compile(r"((?:[>*#_\s]|-\s)*\d+)[.)]\s+(.*)", re.DOTALL)

_ROW: Final = re.compile(r"^[ \t]*\|(.*)\|[ \t]*$", re.MULTILINE)
_DOCUMENT_COLUMN: Final = re.compile(
    r"\b(?:doc|document|candidate|passage|item|result|number|no|id|index)\b|#", re.IGNORECASE
)
_RANK_COLUMN: Final = re.compile(r"rank|place|position|score|relevan|order", re.IGNORECASE)

_ASCII: Final = str.maketrans("（）：，；、", "():,;,")
"""Punctuation of Chinese and Japanese."""

_JSON: Final = json.JSONDecoder()
_STARTS: Final = 32
"""Most places at which JSON is looked for."""

_LISTED: Final = re.compile(
    r"rank|order|relevant|document|doc|result|candidate|answer|best|sorted|top|passage|item", re.IGNORECASE
)
_UNLISTED: Final = re.compile(r"irrelevant|not[_ -]?relevant|exclu|omit|score|reason|explan|confidence", re.IGNORECASE)
_ONE: Final = re.compile(
    r"(?:best|top|selected|chosen)?[_ ]?"
    r"(?:document|doc|candidate|passage|item|answer|choice|pick|best|index|id|number|result|selected)?"
    r"[_ ]?(?:id|number|index|no)?",
    re.IGNORECASE,
)


def read_order(answer: str, count: int) -> list[int]:
    """Read the numbers of 1..`count` in a chat model's answer, each once, in its order; [] is its `none`.

    Raises BackendBadResponse if there is neither a number of a document nor `none`, or if the answer is over 20,000
    characters.
    """
    if len(answer) > MAX_ANSWER:
        raise BackendBadResponse("chat rerank: the answer is too long")
    found = _read_json(answer)
    if found == [] or _EMPTY.fullmatch(answer):
        return []
    if found is None:
        found = _read_table(answer) or _read_numbered(answer) or _read_lists(answer, count)
    order = dict.fromkeys(number for text in found if 1 <= (number := _integer(text)) <= count)
    if order or _NONE.search(answer):
        return list(order)
    raise BackendBadResponse("chat rerank: neither a document's number nor none in the answer")


def _read_lists(answer: str, count: int) -> list[str]:
    """The numbers of the answer's lists, or of its prose if it has none."""
    answer = answer.translate(_ASCII).replace("。", ".\n")
    last = max((number.start() for number in _NUMBER.finditer(answer)), default=-1)
    announced = [heading for heading in _ANSWER_HEADING.finditer(answer) if heading.end() <= last]
    if announced:
        answer = answer[announced[-1].end() :]
    if (explained := _EXPLANATION.search(answer)) and _NUMBER.search(answer[: explained.start()]):
        answer = answer[: explained.start()]
    listed: dict[str, None] = {}
    prose: dict[str, None] = {}
    for sentence in _SENTENCE.split(answer):
        read = _without_remarks(sentence)
        if read is None:
            continue
        numbers = _numbers(read, count)
        if _is_list(read):
            listed |= numbers
        elif not _NEGATIVE.search(read):
            prose |= numbers
    return list(listed if listed or _NONE_FIRST.match(answer) else prose)


def _numbers(text: str, count: int) -> dict[str, None]:
    """The numbers in a text, each once, with those between the ends of each range."""
    chains: list[list[str]] = []
    end = 0
    for number in _NUMBER.finditer(text):
        if chains and _JOINT.fullmatch(text, end, number.start()):
            chains[-1].append(number[0])
        else:
            chains.append([number[0]])
        end = number.end()
    numbers: dict[str, None] = {}
    for chain in dict.fromkeys(map(tuple, chains)):
        first, last = _integer(chain[0]), _integer(chain[-1])
        is_range = len(chain) == 2 and 0 < first < last <= count
        numbers |= dict.fromkeys(map(str, range(first, last + 1)) if is_range else chain)
    return numbers


def _without_remarks(sentence: str) -> str | None:
    """A sentence without what it says of the numbers in it; None if these aren't relevant."""
    text = _SCORES.sub(" ", _IN_PARENTHESES.sub(r"\1 ", sentence))
    lead, colon, behind = text.partition(":")
    if colon and _WORD.search(lead) and not _LABELLED.match(text):
        listed = _without_texts(behind)
        if _is_list(listed):
            return None if _NEGATIVE.search(lead) and not _NONE.search(lead) else listed
    if (headed := _HEADED.fullmatch(text)) and _LETTER.search(headed[2]) and not _is_list(_without_texts(headed[2])):
        return headed[1]
    return _without_texts(text)


def _without_texts(text: str) -> str:
    return _REMARK.sub(r"\1 ", _PAIR.sub(r"\1 ", text))


def _is_list(text: str) -> bool:
    """True if the text holds a number, and no word but those of lists."""
    return _NUMBER.search(text) is not None and not _LETTER.search(_LIST_WORDS.sub(" ", _NUMBER.sub(" ", text)))


def _read_numbered(answer: str) -> list[str]:
    """The documents' numbers in an answer that numbers them itself; none if it doesn't."""
    numbers: list[str] = []
    end = 0
    for item in _NUMBERED.finditer(answer):
        start = max(end, answer.rfind("\n", end, item.start()) + 1)
        if answer[start : item.start()].strip(_BULLETS):
            continue
        if int(item[1]) != len(numbers) + 1:
            return []
        numbers.append(item[2])
        end = item.end()
    return numbers


def _read_table(answer: str) -> list[str]:
    """The numbers in the documents' column of the answer's table; none if it has no table with a heading."""
    rows = [[cell.strip() for cell in row.split("|")] for row in _ROW.findall(answer)]
    if len(rows) < 3 or not all(cell and set(cell) <= set("-: ") for cell in rows[1]):
        return []
    columns = range(len(rows[0]))
    named = [at for at in columns if _DOCUMENT_COLUMN.search(rows[0][at]) and not _RANK_COLUMN.search(rows[0][at])]
    # The number of a row is often headed `#`, too.
    others = [at for at in columns if not _RANK_COLUMN.search(rows[0][at])]
    column = next(iter(sorted(named, key=lambda at: rows[0][at] in {"#", "No", "No."}) or others), 0)
    cells = (row[column] for row in rows[2:] if len(row) > column)
    return [numbers[0] for cell in cells if (numbers := _NUMBER.findall(cell))]


def _read_json(answer: str) -> list[str] | None:
    """The numbers in the answer's first JSON object, or list of them, that names documents; None if there is none."""
    for start in islice(re.finditer(r"[{\[]", answer), _STARTS):
        try:
            value, _ = _JSON.raw_decode(answer, start.start())
            found = next(_in_json(value), None)
        except (ValueError, RecursionError):
            continue
        if found is not None:
            return found
    return None


def _in_json(value: object) -> Iterator[list[str]]:
    match value:
        case list(entries) if any(isinstance(entry, dict) for entry in entries):
            if found := _entries(entries):
                yield found
        case dict(fields) if fields:
            yield from _in_object(fields)


def _in_object(fields: Mapping[str, Any]) -> Iterator[list[str]]:
    if all(key.isdecimal() for key in fields):
        # Ranks, or documents with their scores.
        ranks = list(fields) == [str(place) for place in range(1, len(fields) + 1)]
        values = _entries(list(fields.values()))
        yield values if ranks and len(set(values)) == len(fields) else list(fields)
        return
    read = {key: value for key, value in fields.items() if not _UNLISTED.search(key)}
    for key, value in sorted(read.items(), key=lambda item: not _LISTED.search(item[0])):
        if isinstance(value, list) and ((found := _entries(value)) or (not value and _LISTED.search(key))):
            yield found
    for key, value in read.items():
        if _ONE.fullmatch(key) and (found := _entries([value])):
            yield found
    for value in read.values():
        if isinstance(value, dict):
            yield from _in_json(value)


def _entries(values: list[Any]) -> list[str]:
    """The number that each of the values names, without those that name none, or more than one."""
    named: list[str] = []
    for value in values:
        found: list[str] = []
        if isinstance(value, dict):
            found = next(_in_object(value), [])
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            whole = not isinstance(value, str) and abs(value) < _GREATEST and value % 1 == 0
            found = _NUMBER.findall(value if isinstance(value, str) else f"{value:.0f}" if whole else "")
        if len(found) == 1:
            named += found
    return named


def _integer(text: str) -> int:
    # Python refuses to read very long ones; a sign, a fraction or another script's digits make it no document's number.
    digits = re.sub(r"(?:st|nd|rd|th)$", "", text, flags=re.IGNORECASE).lstrip("0")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 10 else 0
