"""Documents that the embedder cannot digest are refused alone; an embedder that fails for all of them is waited for."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.clients.http.dialect import by_status
from operators.clients.http.transport import CONTROL
from operators.indexing.apply import ENOUGH, DocumentEmbedder
from operators.query.backend_answers import Embedding
from schemas.errors import (
    BackendBadResponse,
    BackendError,
    BackendTimeout,
    BackendUnavailable,
    DeadLetterClass,
    InputError,
)
from tests.operators.indexing.documents import document
from tests.operators.samples import DIMENSION
from tests.pauses import replace_sleep


def judged(error: BackendError, *, serves_others: bool) -> BackendError:
    """The error after its backend has made a control request itself."""
    return error.but(serves_others=serves_others)


FORMS: Final[dict[str, Callable[[], BackendError]]] = {
    "status 400": lambda: by_status("embedder", 400),
    "status 500": lambda: by_status("embedder", 500),
    "nulls": lambda: BackendBadResponse("embedder: a vector is not a list of numbers"),
    "a crash": lambda: BackendUnavailable("embedder: the connection broke"),
    "silence": lambda: BackendTimeout("embedder: no answer in time"),
    "a judged failure": lambda: judged(by_status("embedder", 500), serves_others=True),
    "a gateway's time-out": lambda: by_status("embedder", 504),
}

OUTAGES: Final[dict[str, Callable[[], BackendError]]] = {
    **FORMS,
    "a judged failure": lambda: judged(by_status("embedder", 500), serves_others=False),
    "a judged refusal": lambda: judged(by_status("embedder", 400), serves_others=False),
    "overload": lambda: by_status("embedder", 429),
    "a wrong key": lambda: by_status("embedder", 401),
    "a wrong path": lambda: by_status("embedder", 404),
}


class Model:
    """An embedder that fails for calls with a poison text, and for the next `down` calls whatever their texts."""

    model = "model"

    def __init__(self, poison: dict[str, str], down: int = 0, outage: str = "status 500") -> None:
        self.poison = poison
        self.down = down
        self.outage = outage
        self.calls: list[Sequence[str]] = []

    async def embed(self, texts: Sequence[str], **_: Any) -> list[Embedding]:
        """Embed, or fail."""
        self.calls.append(texts)
        if self.down:
            self.down -= 1
            raise OUTAGES[self.outage]()
        for text in texts:
            if text in self.poison:
                raise FORMS[self.poison[text]]()
        return [Embedding(np.ones(DIMENSION, dtype=np.float32))] * len(texts)

    async def aclose(self) -> None:
        """Nothing is open."""


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses, none of which is made."""
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def sleeping(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    replace_sleep(monkeypatch, sleeping)
    return pauses


def embedded(model: Model, texts: Sequence[str]) -> list[Embedding | BackendError | None]:
    """The outcomes of documents with these texts."""
    stage = DocumentEmbedder(model, 1.0)
    documents = [document(id=f"d{place}", text=text) for place, text in enumerate(texts)]
    return asyncio.run(stage.call("documents", documents, 1e9))


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from([None, None, *FORMS]), min_size=1, max_size=20),
    st.integers(0, 12),
    st.sampled_from([*OUTAGES]),
)
def test_exactly_the_poison_is_refused(forms: list[str | None], down: int, outage: str) -> None:
    """Any texts, poison in any form, after an outage of any kind and length: the others are embedded."""
    texts = [f"text {place}" for place in range(len(forms))]
    model = Model({text: form for text, form in zip(texts, forms, strict=True) if form is not None}, down, outage)
    outcomes = embedded(model, texts)
    assert [isinstance(each, BackendError) for each in outcomes] == [form is not None for form in forms]


@pytest.mark.parametrize("outage", OUTAGES)
def test_an_outage_refuses_nothing(outage: str, no_pauses: list[float]) -> None:
    """However long an embedder fails for everything, a refusal of everything included: each document waits for it."""
    model = Model({}, down=500, outage=outage)
    assert all(isinstance(each, Embedding) for each in embedded(model, ["a", "b", "c"]))
    assert len(no_pauses) > 100


@pytest.mark.parametrize("status", [429, 503, 521, 522, 523, 525, 526, 529, 530])
def test_a_document_that_no_server_has_read_waits(status: int, no_pauses: list[float]) -> None:
    """Though others find room each time: an overload, and a proxy without its server, say nothing of a document."""

    class Busy(Model):
        async def embed(self, texts: Sequence[str], **named: Any) -> list[Embedding]:
            if texts != [CONTROL] and len(self.calls) < 100:
                self.calls.append(texts)
                raise by_status("embedder", status)
            return await super().embed(texts, **named)

    assert isinstance(embedded(Busy({}), ["a"])[0], Embedding)
    assert len(no_pauses) == 100


@pytest.mark.parametrize("form", FORMS)
def test_the_cost_of_one_poison_text(form: str, no_pauses: list[float]) -> None:
    """One of 64 documents costs two calls and a control for each halving, and its own repeats; its pauses are short."""
    model = Model({"text 17": form})
    outcomes = embedded(model, [f"text {place}" for place in range(64)])
    assert sum(isinstance(each, BackendError) for each in outcomes) == 1
    repeats = max(ENOUGH.values())
    assert len(model.calls) <= 1 + 3 * 6 + 2 * repeats + 2
    assert model.calls.count([CONTROL]) <= 6 + repeats + 2
    assert sum(no_pauses) < 5


def test_the_dead_letter_has_the_servers_reason() -> None:
    """A document that is refused so is a dead letter of class `invalid`, with the server's explanation."""
    stage = DocumentEmbedder(Model({}), 1.0)
    error = by_status("embedder", 500).but(serves_others=True, quoted="unsupported value: NaN")
    with pytest.raises(InputError, match="refused: embedder: status 500: unsupported value: NaN") as caught:
        stage.on_result(document(), error)
    assert caught.value.kind is DeadLetterClass.INVALID


class Balanced(Model):
    """Two replicas behind a balancer that takes turns, of which the second fails for everything."""

    async def embed(self, texts: Sequence[str], **named: Any) -> list[Embedding]:
        """Embed, or fail."""
        self.down = len(self.calls) % 2
        return await super().embed(texts, **named)


def test_a_sick_replica_behind_a_balancer_refuses_nothing() -> None:
    """Though each call meets the sick replica and each control request the healthy one."""
    model = Balanced({}, outage="status 500")
    model.calls.append(())
    assert all(isinstance(each, Embedding) for each in embedded(model, [f"text {place}" for place in range(8)]))
