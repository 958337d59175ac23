"""Keywords: the words of a query that a document may hold.

Words are case-folded NFKC, of three characters or more; scripts that write no spaces give character bigrams instead.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator
from functools import cache, lru_cache
from itertools import groupby
from typing import Final

SHORTEST: Final = 3

# Thai, Lao, Myanmar, Khmer, kana, Han: scripts that put no space between words.
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003fffd"
)
_RUNS: Final = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_WITHOUT_SPACES: Final = re.compile(f"[{_UNSPACED}]")

_ENGLISH: Final = (
    "about above after again against all also and any are aren because been before being below between both "
    "but can cannot could couldn did didn does doesn doing don down during each few for from further had hadn "
    "has hasn have haven having her here hers herself him himself his how into isn its itself just let may "
    "might mightn more most must mustn myself need needn nor not now off once only other our ours ourselves "
    "out over own same shall shan she should shouldn some such than that the their theirs them themselves then "
    "there these they this those through too under until very was wasn were weren what when where which while "
    "who whom whose why will with won would wouldn you your yours yourself yourselves "
)
STOP_WORDS: Final = frozenset(_ENGLISH.split())
"""English words of three letters or more that say nothing alone."""


_SCRIPTS: Final = (0x300, 0x1F000)
"""Code points among which living scripts have their marks."""


def keywords(text: str, stop_words: Collection[str] = STOP_WORDS) -> frozenset[str]:
    """The distinct keywords of a query, without stop words."""
    return words(text) - (STOP_WORDS if stop_words is STOP_WORDS else {_folded(word) for word in stop_words})


@lru_cache(maxsize=4096)
def words(text: str) -> frozenset[str]:
    """The distinct words of a text, and its bigrams where it is written without spaces."""
    found: set[str] = set()
    for word in _word().findall(_folded(text)):
        if not _WITHOUT_SPACES.search(word):
            if len(word) >= SHORTEST:
                found.add(word)
            continue
        for run in _RUNS.findall(word):
            if _WITHOUT_SPACES.match(run):
                found.update(run[at : at + 2] for at in range(len(run) - 1))
            elif len(run) >= SHORTEST:
                found.add(run)
    return frozenset(found)


def _folded(text: str) -> str:
    # Folding can undo a composition: normalise after it, too.
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


@cache
def _word() -> re.Pattern[str]:
    # Without its marks a Hindi or a vowelled Arabic word falls into letters, and `\w` has none of them.
    return re.compile(f"[^\\W_](?:[^\\W_]|[{''.join(_marks())}])*")


def _marks() -> Iterator[str]:
    points = (point for point in range(*_SCRIPTS) if unicodedata.category(chr(point)).startswith("M"))
    for _, group in groupby(enumerate(points), key=lambda pair: pair[1] - pair[0]):
        run = [point for _, point in group]
        yield f"{chr(run[0])}-{chr(run[-1])}"
