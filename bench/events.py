"""The query events of a load: no two alike, each with a text for the keyword leg and a vector for the other, or of
given texts alone, or those of a file.
"""

import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import orjson

from bench.figures import PAGE
from bench.stubs import DIMENSION, TENANT

TIMEOUT_MS: Final = 600_000
"""Longer than a burst takes to drain, as far as a flow's `limits.max_timeout` allows it: a query that expires in the
queue would make the drain look fast."""

WORDS: Final = "blue lantern harbor copper ledger winter bridge night letter river stone orchard signal compass"


def query_events(run: str, count: int, limit: int = PAGE, namespaces: int = 0) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of `count` events with the ids `RUN-0`, `RUN-1`..., each made when it is asked for.

    The same for the same `run`. They ask so many namespaces in turn; 0: the default one.
    """
    seed = zlib.crc32(run.encode())
    words = random.Random(seed)
    vectors = np.random.default_rng(seed)
    for number in range(count):
        vector = vectors.standard_normal(DIMENSION, dtype=np.float32)
        query_id = f"{run}-{number}"
        event: dict[str, Any] = {
            "query_id": query_id,
            "text": f"{' '.join(words.sample(WORDS.split(), 6))} {query_id}",
            "vector": vector / np.linalg.norm(vector),
            "limit": limit,
            "timeout_ms": TIMEOUT_MS,
        }
        if namespaces:
            event["namespace"] = f"{TENANT}{number % namespaces}"
        yield query_id.encode(), orjson.dumps(event, option=orjson.OPT_SERIALIZE_NUMPY)


def repeated_events(run: str, texts: Sequence[int]) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of events with the ids `RUN-0`, `RUN-1`..., identical where the numbers of their texts are.

    The text of a number is the same in every run.
    """
    for place, number in enumerate(texts):
        query_id = f"{run}-{place}"
        words = random.Random(number).sample(WORDS.split(), 6)
        event = {"query_id": query_id, "text": f"{' '.join(words)} {number}", "timeout_ms": TIMEOUT_MS}
        yield query_id.encode(), orjson.dumps(event)


def given_events(
    run: str, queries: Sequence[Mapping[str, Any]], texts: Sequence[int], limit: int = PAGE
) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of events with the ids `RUN-0`, `RUN-1`..., identical where the numbers of their texts are.

    The first numbers are the `queries`, with their texts and namespaces; each later one is a query with another number
    behind its text, so that no two are alike.
    """
    for place, number in enumerate(texts):
        again, line = divmod(number, len(queries))
        query = queries[line]
        query_id = f"{run}-{place}"
        text = f"{query['text']} {again}" if again else query["text"]
        event: dict[str, Any] = {"query_id": query_id, "text": text, "limit": limit, "timeout_ms": TIMEOUT_MS}
        if "namespace" in query:
            event["namespace"] = query["namespace"]
        yield query_id.encode(), orjson.dumps(event)
