"""The words that a prefix at the end of a phrase may stand for.

Qdrant counts the words of those documents that the query sees and that hold the phrase and a word that starts so.
"""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from operators.clients.qdrant.client import Filter, QdrantClient
from operators.query.syntax.keyword_filter import Ending, Endings
from schemas.document import WORDS

COUNTED: Final = 10_000
"""Words that are counted at most; the rarest beyond them are not looked for."""

MOST: Final = 256
"""Endings of one phrase at most: each is one condition of the search."""


class Counted(NamedTuple):
    """The endings, and whether there may be more of them."""

    endings: Endings
    cut: bool


async def phrase_endings(
    client: QdrantClient, collection: str, wanted: Mapping[Ending, Filter], *, timeout: float
) -> Counted:
    """The endings of each phrase in its column among the documents that its filter matches, the commonest first.

    Raises BackendError.
    """
    counted = await asyncio.gather(
        *(
            client.facet(collection, WORDS[column], where, limit=COUNTED, exact=True, timeout=timeout)
            for (_, column), where in wanted.items()
        )
    )
    found: dict[Ending, list[str]] = {}
    cut = False
    for (leaf, column), words in zip(wanted, counted, strict=True):
        start = leaf.prefix.lower()
        fitting = sorted(
            (-count, word) for word, count in words.items() if isinstance(word, str) and word.startswith(start)
        )
        found[leaf, column] = [word for _, word in fitting[:MOST]]
        cut = cut or len(words) >= COUNTED or len(fitting) > MOST
    return Counted(found, cut)
