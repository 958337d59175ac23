"""The picker: what a chat model is asked, what comes of its answer, and how many are asked at once."""

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.clients.rerankers import Reranker, RerankRequest, Scores
from operators.clients.rerankers.picker import SYSTEM, Picker, read_pick
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, BackendUnavailable
from tests.operators.clients.chat_models.servers import (
    HEADERS,
    Anthropic,
    Make,
    OpenAI,
    Server,
    always,
    anthropic,
    openai,
    openai_answer,
)
from tests.operators.clients.rerankers.chatting import obeying, picks, request_of
from tests.operators.clients.serving import Handler, answering, backend


class Thinking:
    """A chat model in this process that picks the first after a while, for what concerns no server."""

    model = "thinking"

    def __init__(self, latency: float) -> None:
        self.closed = False
        self._latency = latency

    async def complete(self, system: str, user: str, *, timeout: float) -> str:
        """Pick the first."""
        await asyncio.sleep(self._latency)
        return "1"

    async def aclose(self) -> None:
        """Tell that it was closed."""
        self.closed = True


APIS = pytest.mark.parametrize(("make", "server"), [(openai, OpenAI), (anthropic, Anthropic)])


@APIS
def test_outcomes_follow_the_requests(make: Make, server: type[Server]) -> None:
    """Of many queries at once each gets the document that the model picked for it, whatever its place."""
    requests = [request_of(count, best) for count in (2, 5, 50) for best in range(count)]
    expected = [{f"id-{best}": 1.0} for count in (2, 5, 50) for best in range(count)]
    assert picks(server(obeying), requests, make) == expected


def test_none_is_a_verdict() -> None:
    """A model that finds no document relevant gives no scores, and that is no error."""
    request = RerankRequest("nothing like it", {"a": "x", "b": "y"}, "docs")
    assert picks(OpenAI(obeying), [request]) == [{}]


def test_one_candidate_or_none_needs_no_call() -> None:
    """One candidate scores 1 and none is no score, without a completion."""
    server = OpenAI(obeying)
    assert picks(server, [request_of(1, 0), request_of(0, 0)]) == [{"id-0": 1.0}, {}]
    assert picks(server, []) == []
    assert server.requests == []


def test_the_prompt_is_a_numbered_list_of_json_strings() -> None:
    """The model gets its rule, the query and the documents in their order from 1, each on one line, and no id."""
    server = OpenAI(obeying)
    picks(server, [RerankRequest('a "query"', {"secret-id": "one\ntwo", "other": "日本"}, "docs")])
    system, user = (message["content"] for message in server.requests[0]["messages"])
    assert system == SYSTEM
    assert user == 'Query:\n"a \\"query\\""\nDocuments:\n1. "one\\ntwo"\n2. "日本"'


@pytest.mark.parametrize("character", ["x", "é", "日", "🙂", "\n"])
def test_documents_are_cut_at_300_code_points(character: str) -> None:
    """Of a document the model reads 300 code points, whatever their bytes; a query is whole."""
    server = OpenAI(obeying)
    texts = {"a": character * 300, "b": character * 299 + "yz"}
    picks(server, [RerankRequest("q" * 400, texts, "docs")])
    user = server.requests[0]["messages"][1]["content"]
    shown = character if character != "\n" else "\\n"
    assert user == f'Query:\n"{"q" * 400}"\nDocuments:\n1. "{shown * 300}"\n2. "{shown * 299}y"'


def test_it_reports_the_chat_models_name() -> None:
    """Provenance names the model that was asked, and what it reads is texts."""

    async def scenario() -> Reranker:
        async with backend("http://127.0.0.1:1") as endpoint:
            return Picker(openai(endpoint), 4)

    reranker = asyncio.run(scenario())
    assert (reranker.model, reranker.reads) == ("gpt-4.1-mini", "text")


@pytest.mark.parametrize(
    ("handler", "kind"),
    [
        (always({}, 429), BackendUnavailable),
        (always({}, 500), BackendUnavailable),
        (always({}, 401), BackendBadResponse),
        (OpenAI(obeying, 5.0), BackendTimeout),
        (always(b"garbage"), BackendBadResponse),
        (always(openai_answer(None)), BackendBadResponse),
        (always({**openai_answer("1"), "choices": []}), BackendBadResponse),
        (always(openai_answer("NaN")), BackendBadResponse),
        (always(openai_answer("")), BackendBadResponse),
        (always(openai_answer("The third one.")), BackendBadResponse),
        (always(openai_answer("0 or 3")), BackendBadResponse),
    ],
)
def test_a_failure_is_an_outcome(handler: Handler, kind: type[BackendError]) -> None:
    """What went wrong is the outcome of the query that it happened to, never an empty verdict, and isn't raised."""
    outcomes = picks(handler, [request_of(2, 0), request_of(1, 0)], timeout=1)
    assert [type(outcome) for outcome in outcomes] == [kind, dict]


@pytest.mark.parametrize(("limit", "most"), [(4, 4), (1, 1), (0, 12), (-1, 12)])
def test_completions_in_flight_are_bounded(limit: int, most: int) -> None:
    """As many completions are in flight as `max_concurrency` allows, over calls too, and no more; 0 is no bound."""
    server = OpenAI(obeying, 0.05)

    async def scenario() -> list[list[Scores | BackendError]]:
        async with answering(server) as url, backend(f"{url}/v1", headers=HEADERS[openai]) as endpoint:
            picker = Picker(openai(endpoint), limit)
            return await asyncio.gather(*(picker.rerank([request_of(3, 1)] * 6, timeout=5) for _ in range(2)))

    assert asyncio.run(scenario()) == [[{"id-1": 1.0}] * 6] * 2
    assert server.most_at_once == most


def test_waiting_for_a_slot_counts_for_the_timeout() -> None:
    """Queries of a call share its time-out: those that get no slot in time are BackendTimeout and are not sent."""
    server = OpenAI(obeying, 0.3)
    started = time.monotonic()
    outcomes = picks(server, [request_of(2, 0)] * 12, timeout=0.45)
    assert time.monotonic() - started < 1.5
    assert [type(outcome) for outcome in outcomes] == [dict] * 4 + [BackendTimeout] * 8
    assert len(server.requests) == 8


def test_waiting_for_anothers_slot_ends_in_time() -> None:
    """A call that waits for slots which a longer call holds is BackendTimeout when its own time is up."""

    async def scenario() -> tuple[list[Scores | BackendError], float]:
        picker = Picker(Thinking(1.0), 1)
        longer = asyncio.create_task(picker.rerank([request_of(2, 0)], timeout=5))
        await asyncio.sleep(0.1)
        started = time.monotonic()
        outcomes = await picker.rerank([request_of(2, 0)], timeout=0.1)
        took = time.monotonic() - started
        await longer
        return outcomes, took

    outcomes, took = asyncio.run(scenario())
    assert [type(outcome) for outcome in outcomes] == [BackendTimeout]
    assert took < 0.6


def test_slots_come_free_after_failures_and_cancellation() -> None:
    """Neither failed nor cancelled calls keep their slots."""
    slow, quick = OpenAI(obeying, 5.0), OpenAI(obeying)
    server = slow

    async def scenario() -> list[Scores | BackendError]:
        nonlocal server
        async with (
            answering(lambda request: server(request)) as url,
            backend(f"{url}/v1", headers=HEADERS[openai]) as endpoint,
        ):
            picker = Picker(openai(endpoint), 4)
            await picker.rerank([request_of(2, 0)] * 6, timeout=0.1)
            cancelled = asyncio.create_task(picker.rerank([request_of(2, 0)] * 6, timeout=5))
            await asyncio.sleep(0.1)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            server = quick
            return await picker.rerank([request_of(2, 0)] * 6, timeout=2)

    assert asyncio.run(scenario()) == [{"id-0": 1.0}] * 6


def test_a_picker_outlives_its_loop() -> None:
    """A picker whose slots were waited for on one event loop works on the next."""
    picker = Picker(Thinking(0.01), 1)
    calls = [asyncio.run(picker.rerank([request_of(2, 0)] * 3, timeout=5)) for _ in range(2)]
    assert calls == [[{"id-0": 1.0}] * 3] * 2


def test_closing_it_closes_the_chat_model() -> None:
    """A picker owns its chat model: closed, it leaves no connection open."""
    chat = Thinking(0)
    asyncio.run(Picker(chat, 1).aclose())
    assert chat.closed


@pytest.mark.parametrize(
    ("answer", "pick"),
    [
        ("3", 3),
        (" 3.\n", 3),
        ("[3]", 3),
        ("**3**", 3),
        ("#3", 3),
        ("Document3 is best", 3),
        ("3, 1, 2", 3),
        ("3,1", 3),
        ("3-1", 3),
        ("3rd", 3),
        ("document-3", 3),
        ("03", 3),
        ("0" * 5000 + "3", 3),
        ("３", 3),
        ("0, 6, 3", 3),
        ("none of 1, but 3", 1),
        ("-1, then 3", 3),
        ("−1, then 3", 3),
        ("with 0.95 or 1.0: 3", 3),
        ("33 3", 3),
        ("9" * 5000 + " 3", 3),
        ("none", None),
        ("None.", None),
        ("NONE", None),
        ("**none**", None),
        ("_none_", None),
        ("none of these 6", None),
        ("0: none", None),
        ("-1, none", None),
    ],
    ids=lambda value: str(value)[:20],
)
def test_an_answer_is_read_wherever_it_stands(answer: str, pick: int | None) -> None:
    """The first whole number of 1..5 is the pick, in any prose; without one, `none` in any case picks nothing."""
    assert read_pick(answer, 5) == pick


@pytest.mark.parametrize(
    "answer",
    ["", "0", "\uff10", "6", "-3", "3.5", "9" * 5000, "three", "nonetheless", "cannone", "null", "n one", "²", "NaN"],
)
def test_another_answer_is_a_bad_response(answer: str) -> None:
    """Neither a number in range nor `none` is BackendBadResponse, not a guess."""
    with pytest.raises(BackendBadResponse):
        read_pick(answer, 5)


@given(st.text() | st.text("0123456789-. none"), st.integers(1, 200))
def test_any_string_is_a_pick_none_or_a_bad_response(answer: str, count: int) -> None:
    """Whatever a model says, its reading ends in a number in range, None where it says none, or BackendBadResponse."""
    try:
        pick = read_pick(answer, count)
    except BackendBadResponse:
        return
    assert 1 <= pick <= count if pick is not None else "none" in answer.lower()


@given(
    st.lists(st.integers(-300, 300), max_size=8),
    st.integers(1, 200),
    st.text(st.characters(categories=["L"])),
    st.booleans(),
)
def test_the_first_number_in_range_is_the_pick(numbers: list[int], count: int, word: str, none: bool) -> None:
    """Of numbers among words the first in range is picked; without one the answer counts by its `none`."""
    word = "" if "none" in word.lower() else word
    answer = f"{word} {f' {word} '.join(map(str, numbers))} {'none' if none else ''}"
    expected = next((number for number in numbers if 1 <= number <= count), None)
    if expected is None and not none:
        with pytest.raises(BackendBadResponse):
            read_pick(answer, count)
    else:
        assert read_pick(answer, count) == expected
