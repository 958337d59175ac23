"""A corpus of made-up words by Zipf's law, for a real server: documents and queries, the same each time."""

import random
import zlib
from collections.abc import Iterator
from functools import cache
from itertools import accumulate, product
from typing import Any, Final

import numpy as np
import orjson

from bench.events import TIMEOUT_MS
from bench.figures import PAGE
from bench.stubs import DIMENSION

VOCABULARY: Final = 20_000
"""Words; each is as frequent as 1 over its rank."""

_TITLE: Final = 3
_TEXT: Final = 20
_QUERY: Final = 5
_SYLLABLES: Final = [first + second for first, second in product("bdfgklmnprstvz", "aeiou")]
_FREQUENCIES: Final = list(accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))


def documents(first: int, count: int) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of so many document events, from a number on: titles and texts of some 120 characters."""
    for number in range(first, first + count):
        words = _words(random.Random(number), _TITLE + _TEXT)
        event = {"id": f"doc-{number}", "title": " ".join(words[:_TITLE]), "text": " ".join(words[_TITLE:])}
        yield event["id"].encode(), orjson.dumps(event)


def corpus_events(run: str, count: int, limit: int = PAGE, *, vectors: bool) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of `count` query events with the ids `RUN-0`, `RUN-1`..., of the corpus's words, no two alike.

    With `vectors` of their own, or without.
    """
    seed = zlib.crc32(run.encode())
    words, numbers = random.Random(seed), np.random.default_rng(seed)
    for number in range(count):
        query_id = f"{run}-{number}"
        text = " ".join(_words(words, _QUERY))
        event: dict[str, Any] = {"query_id": query_id, "text": text, "limit": limit, "timeout_ms": TIMEOUT_MS}
        if vectors:
            vector = numbers.standard_normal(DIMENSION, dtype=np.float32)
            event["vector"] = vector / np.linalg.norm(vector)
        yield query_id.encode(), orjson.dumps(event, option=orjson.OPT_SERIALIZE_NUMPY)


def _words(chance: random.Random, count: int) -> list[str]:
    return chance.choices(_vocabulary(), cum_weights=_FREQUENCIES, k=count)


@cache
def _vocabulary() -> list[str]:
    short, long = ([*product(_SYLLABLES, repeat=length)] for length in (2, 3))
    chance = random.Random(0)
    # Frequent words are short ones.
    chosen = [*chance.sample(short, len(short)), *chance.sample(long, VOCABULARY - len(short))]
    return ["".join(each) for each in chosen]
