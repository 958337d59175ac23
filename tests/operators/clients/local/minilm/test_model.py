"""The embedder in this process: shapes, order, time-outs."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from operators.clients.embedders import Embedder, Purpose
from operators.clients.local.inference import Abandoned, Cores
from operators.clients.local.minilm import MiniLM, model_file
from operators.query.backend_answers import Embedding
from operators.stages.locate import find_hints
from schemas.errors import BackendTimeout, BackendUnavailable, ConfigError
from tests.operators.delivery.scripted import until

weighty = pytest.mark.weights


@weighty
def test_vectors_and_token_rows_have_unit_length(minilm: MiniLM) -> None:
    """A text of five pieces has five rows of 384, without the special tokens, and all of it is float32."""
    (found,) = minilm.encode(["the quick brown fox jumps"])
    assert found.tokens is not None
    assert (found.vector.shape, found.tokens.shape, len(found.token_ids)) == ((384,), (5, 384), 5)
    assert found.vector.dtype == found.tokens.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(found.tokens, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(found.vector), 1, atol=1e-5)


@weighty
@pytest.mark.parametrize("text", ["", " \t\n", "\u200b\u200b", "\u0301", "\ufe0f", "\x00", "\ufffd", "\ue000"])
def test_a_text_without_a_token_has_no_direction(minilm: MiniLM, text: str) -> None:
    """Nothing to say is not a failure: the vector is zero, also next to a text that has one."""
    found, other = minilm.encode([text, "e\u0301"])
    assert found.tokens is not None
    assert found.tokens.shape == (0, 384)
    assert found.token_ids == ()
    assert not found.vector.any()
    assert not minilm.has_token(text)
    assert (found.directed, other.directed, minilm.has_token("e\u0301")) == (False, True, True)
    assert minilm.has_token("\u200b" * 10_000 + "a")


@weighty
def test_the_share_of_unknown_letters_is_told(minilm: MiniLM) -> None:
    """A word that the vocabulary cannot spell counts with all of its letters; punctuation and a cut end do not."""
    texts = ["blue lantern, 12!", "ຄັນຮົ່ມ", "blue ຄັນຮົ່ມ", "马桶堵了", "word " * 300 + "马桶堵了", "日本に送って"]
    shares = [found.unknown for found in minilm.encode(texts)]
    assert shares[:5] == [0.0, 1.0, pytest.approx(1 / 2), 1.0, 0.0]
    assert shares[5] == pytest.approx(1 / 6)


@weighty
@pytest.mark.parametrize(
    ("text", "share", "signs"),
    [
        ("🍕", 1, True),
        ("pizza 🍕", 1 / 6, True),
        ("👨\u200d👩\u200d👧", 1, True),
        ("100 % ✓", 1 / 4, True),
        ("pizza🍕", 1, True),
        ("→ ★", 0, False),
        ("5 € + ½ = ©", 0, False),
        ("a + b 马桶堵了", 4 / 6, False),
    ],
)
def test_unknown_signs_count_as_letters(minilm: MiniLM, text: str, share: float, signs: bool) -> None:
    """Emoji and other signs without a token of their own; those of the vocabulary make no share smaller."""
    (found,) = minilm.encode([text])
    assert found.unknown == pytest.approx(share)
    assert found.unknown_signs == signs


class Noted:
    """The tokenizer, noting how much of the longest text it is given, and in which way."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.longest: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        """The tokenizer's own, with a note of each text."""
        own = getattr(self._tokenizer, name)

        def noted(texts: Any, **options: Any) -> Any:
            longest = len(texts) if isinstance(texts, str) else max(map(len, texts))
            self.longest[name] = max(longest, self.longest.get(name, 0))
            return own(texts, **options)

        return noted


@weighty
@pytest.mark.parametrize("text", ["東京は日本の首都です。", "word ຄັນຮົ່ມ ", "half a \ud83d 马桶", "नमस्ते "])
def test_the_end_of_a_far_longer_text_is_not_read(cache: Path, text: str) -> None:
    """Neither for its vectors, nor for its unknown letters or its spans: all are those of its beginning. Other threads
    run while it is tokenised, which `encode` alone doesn't let them.
    """
    model = MiniLM(cache)
    short = text * (4000 // len(text))
    expected, spans = model.encode([short])[0], model.spans(short)
    noted = Noted(model._tokenizer)
    model._tokenizer = noted  # type: ignore[assignment]
    (found,) = model.encode([text * 9000])
    assert model.spans(text * 9000) == spans
    assert found.token_ids == expected.token_ids
    assert found.unknown == pytest.approx(expected.unknown)
    assert np.array_equal(found.vector, expected.vector)
    assert "encode" not in noted.longest
    assert max(noted.longest.values()) < 5000


@weighty
def test_no_texts_have_no_embeddings(minilm: MiniLM) -> None:
    """An empty request is answered empty."""
    assert minilm.encode([]) == []


@weighty
def test_a_lone_surrogate_reads_as_a_question_mark(minilm: MiniLM) -> None:
    """A string that UTF-8 can't hold is embedded all the same, and spoils no other text's embedding."""
    broken, mended = minilm.encode(["half a \ud83d smile", "half a ? smile"])
    assert broken.token_ids == mended.token_ids
    np.testing.assert_allclose(broken.vector, mended.vector, atol=1e-5)


@weighty
def test_a_long_text_keeps_its_first_256_tokens(minilm: MiniLM) -> None:
    """The tokens after them change nothing."""
    cut, longer = minilm.encode(["word " * 254, "word " * 254 + "tail " * 500])
    assert len(longer.token_ids) == 254
    np.testing.assert_allclose(cut.vector, longer.vector, atol=1e-5)


@weighty
async def test_embed_answers_in_order_from_threads_of_its_own(minilm: MiniLM) -> None:
    """The event loop stays free while the model computes, and the answer is what `encode` gives."""
    embedder: Embedder = minilm
    texts = ["short", "a much longer text about nothing in particular " * 8] * 4
    work = asyncio.create_task(embedder.embed(texts, purpose="query", timeout=60))
    turns = 0
    while not work.done():
        await asyncio.sleep(0.001)
        turns += 1
    for found, expected in zip(await work, minilm.encode(texts), strict=True):
        np.testing.assert_allclose(found.vector, expected.vector, atol=1e-5)
    assert turns > 5


class Slow(MiniLM):
    """The model, recording what it was asked to compute and going on with it when it is let."""

    def __init__(self, cache: Path) -> None:
        super().__init__(cache, cores=Cores(1))
        self.begun: list[Sequence[str]] = []
        self.let = threading.Event()

    def encode(
        self, texts: Sequence[str], purpose: Purpose = "query", abandoned: Abandoned = lambda: False
    ) -> list[Embedding]:
        """Record, wait and embed."""
        self.begun.append(texts)
        assert self.let.wait(60)
        return super().encode(texts, purpose, abandoned)


@weighty
async def test_a_timeout_drops_what_has_not_begun(cache: Path) -> None:
    """A call that waits behind another past its time is BackendTimeout and is never computed."""
    slow = Slow(cache)
    first = asyncio.create_task(slow.embed(["first"], purpose="query", timeout=60))
    await asyncio.to_thread(until, lambda: slow.begun)
    with pytest.raises(BackendTimeout):
        await slow.embed(["second"], purpose="query", timeout=0.05)
    slow.let.set()
    await first
    await slow.embed(["third"], purpose="query", timeout=60)
    await slow.aclose()
    assert slow.begun == [("first",), ("third",)]


@weighty
async def test_a_closed_embedder_is_unavailable(cache: Path) -> None:
    """After `aclose` a call fails as a backend does, and its thread is gone."""
    closed = MiniLM(cache, cores=Cores(1))
    await closed.embed(["text"], purpose="query", timeout=60)
    await closed.aclose()
    with pytest.raises(BackendUnavailable):
        await closed.embed(["text"], purpose="query", timeout=60)


@weighty
@pytest.mark.parametrize("content", [b"no graph", b""])
def test_another_graph_is_not_loaded(cache: Path, minilm: MiniLM, tmp_path: Path, content: bytes) -> None:
    """Whatever lies in the graph's place is replaced by the graph: the vectors are the model's."""
    (built,) = cache.iterdir()
    (tmp_path / built.name).write_bytes(content)
    (vector,) = (each.vector for each in MiniLM(tmp_path).encode(["text"]))
    assert np.array_equal(vector, minilm.encode(["text"])[0].vector)
    assert (tmp_path / built.name).read_bytes() == built.read_bytes()


@weighty
def test_another_tokenizer_is_not_loaded(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tokenizer that isn't the published one, however little it differs, is a configuration error that names it."""
    changed = tmp_path / "tokenizer.json"
    changed.write_bytes(model_file("tokenizer.json").read_bytes() + b"\n")
    monkeypatch.setattr("operators.clients.local.minilm.model_file", lambda name: {"tokenizer.json": changed}[name])
    with pytest.raises(ConfigError, match=r"tokenizer\.json is not of the published"):
        MiniLM(cache)


@weighty
def test_the_model_names_the_sentence_that_says_it(minilm: MiniLM) -> None:
    """MiniLM finds the sentence about hiring bicycles in a text that calls them otherwise; spans are the text's."""
    text = "The museum opens at nine. Two-wheelers can be rented behind the station. Dogs are not admitted."
    asked, read = minilm.encode(["bike hire", text])
    assert asked.tokens is not None
    assert read.tokens is not None
    spans = minilm.spans(text)
    assert len(spans) == len(read.tokens)
    best = max(find_hints(asked.tokens, read.tokens, spans), key=lambda hint: hint.weight)
    assert 26 <= best.start < text.index("Dogs")
