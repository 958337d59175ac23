"""The words that a prefix at the end of a phrase may stand for.

Qdrant counts the words of those documents that the query sees and that hold the phrase and a word that starts so. The
namespaces that ask take turns: the counts of one take nothing from the others.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from operators.clients.qdrant.answers import Facet
from operators.clients.qdrant.client import Filter, QdrantClient
from operators.query.keyword_filter import Ending, Endings
from operators.runtime.turns import Turns
from schemas.document import words_key

COUNTED: Final = 10_000
"""Most words that are counted; the rarest beyond them are not looked for."""


class Counted(NamedTuple):
    """The endings; `cut`: there may be more of them."""

    endings: Endings
    cut: bool


async def phrase_endings(
    client: QdrantClient,
    collection: str,
    wanted: Mapping[Ending, Filter],
    *,
    most: int,
    turns: Turns,
    namespace: str,
    timeout: float,
) -> Counted:
    """The `most` commonest endings of each phrase in its column among the documents that its filter matches.

    They are looked for among the commonest words of these documents. Raises BackendError.
    """
    deadline = time.monotonic() + timeout

    async def words_in(column: str, where: Filter) -> Facet:
        async with turns.turn(namespace):
            left = deadline - time.monotonic()
            return await client.facet(collection, words_key(column), where, limit=COUNTED, timeout=left)

    words_of = await asyncio.gather(*(words_in(column, where) for (_, column), where in wanted.items()))
    found: dict[Ending, list[str]] = {}
    cut = False
    for (leaf, column), words in zip(wanted, words_of, strict=True):
        start = leaf.prefix.lower()
        fitting = sorted(
            (-count, word) for word, count in words.counts.items() if isinstance(word, str) and word.startswith(start)
        )
        found[leaf, column] = [word for _, word in fitting[:most]]
        cut = cut or words.cut or len(fitting) > most
    return Counted(found, cut)
