"""Token vectors computed at query time: one batch at a time, and kept within a bound."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.clients.embedders import Purpose
from operators.clients.rerankers.token_vectors import TokenVectors
from operators.query.backend_answers import Embedding
from schemas.errors import BackendTimeout
from tests.operators.clients.rerankers.token_index import DIMENSION
from tests.operators.clients.rerankers.word_vectors import WORDS, WordVectors


async def test_what_nobody_waits_for_does_not_pile_up() -> None:
    """However many queries run out of time at an embedder that hangs, it has one batch of texts, and the next waits."""
    entered: list[Sequence[str]] = []

    class Counted(WordVectors):
        async def embed(self, texts: Sequence[str], *, purpose: Purpose, timeout: float) -> list[Embedding]:
            entered.append(texts)
            return await super().embed(texts, purpose=purpose, timeout=timeout)

    embedder = Counted()
    embedder.held = {"0": asyncio.Event()}
    vectors = TokenVectors(embedder)
    late = await asyncio.gather(
        *(vectors.of("acme", [str(number)], timeout=0.05 + number / 100) for number in range(20)),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in late] == [BackendTimeout] * 20
    assert entered == [["0"]]
    embedder.held["0"].set()
    assert (await vectors.of("acme", ["0", "1"], timeout=30)).keys() == {"0", "1"}
    assert entered == [["0"], ["1"]]


async def test_a_call_without_time_embeds_nothing() -> None:
    """A stored vector is still there for it."""
    embedder = WordVectors()
    vectors = TokenVectors(embedder)
    await vectors.of("acme", ["1 2"], timeout=30)
    assert (await vectors.of("acme", ["1 2"], timeout=0)).keys() == {"1 2"}
    with pytest.raises(BackendTimeout):
        await vectors.of("acme", ["1 2", "3"], timeout=0)
    assert embedder.texts == ["1 2"]


@given(st.lists(WORDS, max_size=30), st.integers(0, 6000))
def test_what_is_kept_is_within_its_bound(documents: list[list[int]], bound: int) -> None:
    """Every text has its token vectors, in 16 bits a component, and those kept never weigh more than allowed."""
    texts = [" ".join(map(str, words)) for words in documents]
    embedder = WordVectors()
    vectors = TokenVectors(embedder, max_bytes=bound)

    async def scenario() -> int:
        found = await vectors.of("acme", texts, timeout=30)
        assert {text: len(rows) for text, rows in found.items()} == {text: len(text.split()) for text in texts}
        assert all(rows.dtype == np.float16 for rows in found.values())
        embedder.texts.clear()
        kept = 0
        for text, rows in reversed(found.items()):
            await vectors.of("acme", [text], timeout=30)
            if embedder.texts:
                break
            kept += rows.nbytes
        return kept

    assert asyncio.run(scenario()) <= bound


async def test_the_text_longest_unused_leaves_first() -> None:
    """With room for two of three equal texts, the one asked for again stays."""
    embedder = WordVectors()
    vectors = TokenVectors(embedder, max_bytes=2 * (DIMENSION * 2 + 512))
    for text in ("1", "2", "1", "3", "1", "2"):
        await vectors.of("acme", [text], timeout=30)
    assert embedder.texts == ["1", "2", "3", "2"]


async def test_no_namespace_is_told_what_was_computed_for_another() -> None:
    """A text of one is computed for each other, too: whether it was there before can't be timed."""
    embedder = WordVectors()
    vectors = TokenVectors(embedder)
    for namespace in ("red", "blue", "red", "blue"):
        await vectors.of(namespace, ["1 2"], timeout=30)
    assert embedder.texts == ["1 2", "1 2"]
