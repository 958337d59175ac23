"""A request that a backend cannot digest is told from a backend that fails, by a control request."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.clients.admission import OPENS_AFTER
from operators.clients.failures import bisect
from operators.clients.http.backend import Backend
from operators.clients.http.transport import Call
from schemas.errors import BackendBadResponse, BackendError, Blame
from tests.operators.clients.http.resilience import guarding
from tests.operators.clients.http.serving import json_response

GOOD = "good"


def read(answer: Any) -> list[int]:
    """The lengths in an answer; null is none."""
    if not isinstance(answer, list) or not all(isinstance(each, int) for each in answer):
        raise BackendBadResponse("backend: no numbers")
    return answer


CONTROL = Call("/path", [GOOD], read)

FORMS = ["status 500", "status 424", "nulls", "no JSON", "another shape"]
"""Answers to a call with a text that the server cannot digest."""


class Server:
    """Answers the lengths of texts; a call with one of `poison` fails in the form that the text names."""

    def __init__(self, poison: dict[str, str] | None = None, *, down: bool = False) -> None:
        self.poison = poison or {}
        self.down = down
        self.calls: list[list[str]] = []
        self.arrived = asyncio.Condition()

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """Answer a call."""
        texts: list[str] = await request.json()
        async with self.arrived:
            self.calls.append(texts)
            self.arrived.notify_all()
        form = "status 500" if self.down else next((self.poison[text] for text in texts if text in self.poison), None)
        if form is None:
            return json_response([len(text) for text in texts])
        if form.startswith("status"):
            return json_response({"error": "unsupported value: NaN"}, int(form.split()[1]))
        if form == "no JSON":
            return web.Response(body=b"[1, NaN]")
        return json_response([None] * len(texts) if form == "nulls" else {"error": "none"})


async def ask(guarded: Backend, texts: Sequence[str], timeout: float = 30.0) -> list[int]:
    """Ask for the lengths of texts."""
    return await guarded.ask(Call("/path", list(texts), read, control=CONTROL), timeout=timeout)


@pytest.mark.parametrize("form", FORMS)
async def test_a_poison_text_opens_no_breaker(form: str) -> None:
    """However often a text fails, and in whatever form: the error says that others are served, and they are."""
    server = Server({"poison": form})
    async with guarding(server) as guarded:
        together = await asyncio.gather(*(ask(guarded, ["poison"]) for _ in range(50)), return_exceptions=True)
        for error in together:
            assert isinstance(error, BackendError)
            assert error.serves_others
            assert error.blame is Blame.REQUEST
        assert await ask(guarded, ["others"]) == [6]
    # The failures that came together had one control request.
    assert server.calls.count([GOOD]) < 50


@pytest.mark.parametrize("status", [502, 503, 504, *range(520, 527), 529, 530])
async def test_an_outage_by_its_status_is_no_request_s_fault(status: int) -> None:
    """The statuses of overloads and gateways say that the backend is at fault: no control request is sent."""
    server = Server({"text": f"status {status}"})
    async with guarding(server) as guarded:
        with pytest.raises(BackendError) as caught:
            await ask(guarded, ["text"])
        assert caught.value.blame is Blame.BACKEND
    assert [GOOD] not in server.calls


async def test_a_server_that_fails_for_everything_is_down() -> None:
    """Failures count if the control request fails, too: the breaker opens, and nothing is divided."""
    server = Server(down=True)
    async with guarding(server) as guarded:
        for _ in range(OPENS_AFTER):
            with pytest.raises(BackendError) as caught:
                await bisect(["a", "b", "c"], lambda some: ask(guarded, some))
            assert not caught.value.serves_others
        with pytest.raises(BackendError, match="breaker is open"):
            await ask(guarded, ["a"])
    assert server.calls.count([GOOD]) == OPENS_AFTER


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([None, None, None, *FORMS]), min_size=1, max_size=32))
def test_each_poison_text_fails_alone(forms: list[str | None]) -> None:
    """Any texts in any order, poison in any form: all others are answered, while the number of calls allows it."""
    texts = [f"{place}" for place in range(len(forms))]
    server = Server({text: form for text, form in zip(texts, forms, strict=True) if form is not None})

    async def scenario() -> list[int | BackendError]:
        async with guarding(server) as guarded:
            return await bisect(texts, lambda some: ask(guarded, some), thorough=True)

    outcomes = asyncio.run(scenario())
    for text, form, outcome in zip(texts, forms, outcomes, strict=True):
        assert outcome == len(text) if form is None else isinstance(outcome, BackendError)


async def survive(guarded: Backend, server: Server) -> list[list[str]]:
    """Let an outage open the breaker, and end; return the first call after it, which nobody asked for."""
    for _ in range(OPENS_AFTER):
        with pytest.raises(BackendError):
            await ask(guarded, ["a"])
    server.down = False
    failed = len(server.calls)
    async with server.arrived:
        await server.arrived.wait_for(lambda: len(server.calls) > failed)
    return server.calls[failed:]


async def test_an_idle_backend_that_is_well_again_is_found() -> None:
    """After an outage the control request closes the breaker, without any request: the next hundred are answered."""
    server = Server(down=True)
    async with guarding(server) as guarded:
        assert await survive(guarded, server) == [[GOOD]]
        assert await asyncio.gather(*(ask(guarded, ["b"]) for _ in range(100))) == [[1]] * 100


async def test_a_probe_speaks_for_no_earlier_control_request() -> None:
    """A text that fails right after an outage's end is told from the outage by a control request of its own."""
    server = Server({"poison": "status 500"}, down=True)
    async with guarding(server) as guarded:
        await survive(guarded, server)
        with pytest.raises(BackendError) as caught:
            await ask(guarded, ["poison"])
        assert caught.value.serves_others


async def test_a_caller_that_is_gone_leaves_the_judgement() -> None:
    """Requests that are cancelled while the control request is under way count by its outcome."""
    server = Server(down=True)
    held = asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        answer = await server(request)
        if server.calls[-1] == [GOOD]:
            await held.wait()
        return answer

    async def scenario() -> None:
        async with guarding(slow) as guarded:
            asked = [asyncio.create_task(ask(guarded, ["a"])) for _ in range(OPENS_AFTER)]
            async with server.arrived:
                await server.arrived.wait_for(lambda: len(server.calls) > OPENS_AFTER)
            for task in asked:
                task.cancel()
            assert await asyncio.gather(*asked, return_exceptions=True)
            held.set()
            while True:
                with pytest.raises(BackendError) as caught:
                    await ask(guarded, ["a"])
                if "breaker is open" in str(caught.value):
                    return

    await scenario()


async def test_a_request_waits_for_the_judgement_within_its_time() -> None:
    """A control request that gets no answer keeps nobody beyond the time-out: the error is not judged yet."""
    server = Server(down=True)

    async def silent(request: web.Request) -> web.StreamResponse:
        answer = await server(request)
        if server.calls[-1] == [GOOD]:
            await asyncio.Event().wait()
        return answer

    async with guarding(silent) as guarded:
        with pytest.raises(BackendError) as caught:
            await ask(guarded, ["a"], timeout=0.3)
        assert caught.value.serves_others is None
        assert caught.value.status == 500
