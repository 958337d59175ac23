"""The content of documents: its fingerprint, by which duplicates are dropped, and its keywords.

Keywords are case-folded NFKC, of two characters or more; scripts that write no spaces give character bigrams instead. A
single Han character or Hangul syllable is a keyword, too.
"""

import hashlib
import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain, groupby
from typing import Any, Final

from operators.ranking.candidate import Candidate, Payload
from operators.ranking.fusion import truncate
from operators.ranking.run import Run, stamp
from schemas.document import COLUMNS, CONTENT, FIELDS, READ, TIMES
from schemas.recipes.stages import Dedupe
from schemas.texts import nfc, nfkc

VISIBLE: Final = re.compile("[^\\s\\x00-\\x1f\\x7f-\\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
"""A character to be seen: no white space, and no control or format character."""


def fingerprint(text: str) -> int | None:
    """A 63-bit hash of the normalised content (NFKC, case-folded, white space folded); None if nothing is left.

    Indexing stores it in each payload, so that ranking reads no texts.
    """
    content = " ".join(nfkc(text).casefold().split())
    if not content:
        return None
    digest = hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) >> 1


def is_blank(text: str) -> bool:
    """True if nothing of the text is to be seen: it is empty, or white space, control and format characters alone."""
    return VISIBLE.search(text) is None


def content(payload: Payload) -> str:
    """The text of the fields that models read, as far as the payload has them, joined as the index joins them."""
    return contents([payload])[0]


def contents(payloads: Iterable[Payload]) -> list[str]:
    """The content of each payload."""
    found = []
    for payload in payloads:
        text = ""
        for value in map(payload.get, COLUMNS):
            if value and isinstance(value, str):
                text = f"{text}\n{value}" if text else value
        found.append(join_fields(payload, payload[READ]) if READ in payload else text)
    return found


def identify_content(payload: Payload) -> int | None:
    """The fingerprint in the payload, or else that of its content; None for a document without content."""
    found = payload.get(CONTENT)
    return found if type(found) is int else fingerprint(content(payload))


def join_fields(payload: Payload, fields: Iterable[str]) -> str:
    """The texts of these fields, each on a line of its own."""
    return "\n".join(text for field in fields for text in field_texts(payload, field))


def field_texts(payload: Payload, path: str) -> list[str]:
    """The texts in NFC at a path such as `brand` or `attributes.colour`, in arrays, too; numbers are texts."""
    if isinstance(value := payload.get(path), str) and "." not in path:
        return [nfc(value)] if value else []
    values: list[Any] = [payload]
    for name in path.split("."):
        values = [each[name] for each in _flatten(values) if isinstance(each, Mapping) and name in each]
    texts = (
        each if isinstance(each, str) else str(each) for each in _flatten(values) if type(each) in (str, int, float)
    )
    return [nfc(text) for text in texts if text]


def _flatten(values: Iterable[Any]) -> Iterator[Any]:
    return chain.from_iterable(value if isinstance(value, list) else (value,) for value in values)


def dedupe(candidates: Sequence[Candidate], stage: Dedupe, run: Run) -> list[Candidate]:
    """Keep the newest candidate of each content; a candidate without content is never a duplicate.

    Of copies of one time the one with most fields stays, and of these the first. Copies have nearly one score, so that
    chance decides which of them a leg lists first. If the query names a time, the first stays: the order is by it then.
    Contents are compared by the fingerprint in the payload, or by that of its text where there is none.
    Source: memini's `search.Dedup`; that the newest stays is our own.
    """
    contents = [candidate.payload.get(CONTENT) for candidate in candidates]
    if set(map(type, contents)) - {int}:
        contents = [identify_content(candidate.payload) for candidate in candidates]
    kept = list(candidates)
    if len(set(contents)) < len(contents):
        newest, best = run.facts.temporal_expression is None, dict[int | None, Candidate]()
        for found, each in zip(contents, candidates, strict=True):
            if found not in best or (newest and _freshness(each) > _freshness(best[found])):
                best[found] = each
        kept = [each for found, each in zip(contents, candidates, strict=True) if found is None or best[found] is each]
    kept = truncate(kept, stage.limit)
    if run.explanations is not None:
        run.rescore(stage, kept, [candidate.score for candidate in kept])
    return kept


def _freshness(candidate: Candidate) -> tuple[float, int]:
    """The time of the document, undated ones first, and the number of its fields."""
    payload = candidate.payload
    times = (stamp(payload.get(name)) for name in reversed(TIMES))
    fields = payload.get(FIELDS)
    return next((time for time in times if time is not None), -math.inf), fields if type(fields) is int else 0


SHORTEST: Final = 2

# Thai, Lao, Myanmar, Khmer, kana, Han: scripts that put no space between words.
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003fffd"
)
_RUNS: Final = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_ASCII_WORD: Final = re.compile("[a-z0-9]+")
_WITHOUT_SPACES: Final = re.compile(f"[{_UNSPACED}]")
_WORD_ALONE: Final = re.compile(
    "[\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd\uac00-\ud7a3]"
)
"""Han and Hangul."""

_ENGLISH: Final = (
    "ago am an as at be buy by do get give he if in is it last ll made me my no of on or re so to up us ve we "
    "about above after again against all also and any are aren because been before being below between both "
    "but can cannot could couldn did didn does doesn doing don down during each few for from further had hadn "
    "has hasn have haven having her here hers herself him himself his how into isn its itself just let may "
    "might mightn more most must mustn myself need needn nor not now off once only other our ours ourselves "
    "out over own same shall shan she should shouldn some such than that the their theirs them themselves then "
    "there these they this those through too under until very was wasn were weren what when where which while "
    "who whom whose why will with won would wouldn you your yours yourself yourselves "
)
STOP_WORDS: Final = frozenset(_ENGLISH.split())
"""English function words, and words that questions about one's own past have. Single letters are no keywords."""


_SCRIPTS: Final = (0x300, 0x1F000)
"""The range of code points with the marks of scripts in use."""


def keywords(text: str, stop_words: Collection[str] = STOP_WORDS) -> frozenset[str]:
    """The distinct keywords of a query, without stop words.

    Source: MemPalace's `reranker.extract_keywords` for English; other scripts are our own.
    """
    return distinct_words(text) - (STOP_WORDS if stop_words is STOP_WORDS else _fold_stop_words(tuple(stop_words)))


def overlap(asked: Collection[str], text: str) -> float:
    """The share of the asked keywords that are words of the text; 0 where nothing is asked.

    Source: MemPalace's `reranker.keyword_overlap`; unlike it, a part of a word doesn't count.
    """
    folded = _fold(text)
    # Most texts hold few of the keywords even as parts of words: such texts need no splitting into words.
    within = [word for word in asked if word in folded]
    return len(_words(folded).intersection(within)) / len(asked) if within else 0.0


def distinct_words(text: str) -> frozenset[str]:
    """The distinct words of a text, and its bigrams where it is written without spaces."""
    return frozenset(word for word in _words(_fold(text)) if len(word) >= SHORTEST or _WORD_ALONE.match(word))


@lru_cache(maxsize=64)
def _fold_stop_words(stop_words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(_fold(word) for word in stop_words)


def _words(folded: str) -> set[str]:
    """The words of a folded text; those shorter than SHORTEST may be among them."""
    if folded.isascii():
        return set(_ASCII_WORD.findall(folded))
    found = set(_word().findall(folded))
    if not _WITHOUT_SPACES.search(folded):
        return found
    apart: set[str] = set()
    for word in found:
        for run in _RUNS.findall(word):
            if _WITHOUT_SPACES.match(run):
                apart.update((run[at : at + 2] for at in range(len(run) - 1)) if len(run) > 1 else run)
            else:
                apart.add(run)
    return apart


def _fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    # Case folding can undo a composition, so the result is normalised again.
    return nfkc(nfkc(text).casefold())


@cache
def _word() -> re.Pattern[str]:
    # Without their marks Hindi and vowelled Arabic words would be split into letters, and `\w` matches no marks.
    return re.compile(f"[^\\W_](?:[^\\W_]|[{''.join(_marks())}])*")


def _marks() -> Iterator[str]:
    points = (point for point in range(*_SCRIPTS) if unicodedata.category(chr(point)).startswith("M"))
    for _, group in groupby(enumerate(points), key=lambda pair: pair[1] - pair[0]):
        run = [point for _, point in group]
        yield f"{chr(run[0])}-{chr(run[-1])}"
