"""Requests that are refused together are asked apart: who keeps an answer, and at how many calls."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.clients.failures import VAIN, Chance, bisect
from operators.clients.http.dialect import by_status
from schemas.errors import BackendBadResponse, BackendError, BackendUnavailable


class Picky:
    """A backend that refuses calls in which one of `bad` is, and negates the others."""

    def __init__(self, bad: set[int], status: int | None = 400) -> None:
        self.calls = 0
        self._bad = bad
        self._status = status

    async def __call__(self, items: Sequence[int]) -> list[int]:
        """Answer or refuse."""
        self.calls += 1
        if self._bad & set(items):
            raise by_status("backend", self._status) if self._status else BackendBadResponse("refused")
        return [-item for item in items]


def outcomes(backend: Picky, count: int) -> list[int | BackendError]:
    """The outcomes of so many items."""
    return asyncio.run(bisect(range(1, count + 1), backend))


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 7, 10, 64, 500])
@pytest.mark.parametrize("place", [0, 1, -1])
def test_one_bad_item_is_refused_alone(count: int, place: int) -> None:
    """All others have their answers, in their order."""
    bad = range(1, count + 1)[place]
    backend = Picky({bad})
    found = outcomes(backend, count)
    assert isinstance(found[place], BackendBadResponse)
    assert [each for each in found if isinstance(each, int)] == [-each for each in range(1, count + 1) if each != bad]


@given(st.integers(1, 80), st.sets(st.integers(1, 80)))
def test_asking_apart_is_bounded(count: int, bad: set[int]) -> None:
    """Whoever is bad: at most one call more than there are items, and never another's answer or a bad one's."""
    backend = Picky(bad)
    try:
        found = outcomes(backend, count)
    except BackendBadResponse:
        assert count == 1
        assert backend.calls == 1
        return
    assert backend.calls <= count + 1
    assert len(found) == count
    for item, answer in enumerate(found, start=1):
        assert answer == -item if isinstance(answer, int) else isinstance(answer, BackendBadResponse)
        assert item not in bad or isinstance(answer, BackendBadResponse)


@pytest.mark.parametrize("status", [None, 401, 424, 500])
def test_any_other_failure_is_everybodys(status: int | None) -> None:
    """Asking again would help nobody."""
    backend = Picky({3}, status)
    with pytest.raises(BackendError):
        outcomes(backend, 20)
    assert backend.calls == 1


async def test_a_failure_on_the_way_is_its_parts_alone() -> None:
    """The part whose call fails otherwise has that error, the others go on."""

    async def call(items: Sequence[int]) -> list[int]:
        if len(items) == 20:
            raise by_status("backend", 413)
        if 20 in items:
            raise BackendUnavailable("gone")
        return list(items)

    found = await bisect(range(1, 21), call)
    assert found[:10] == list(range(1, 11))
    assert [type(each) for each in found[10:]] == [BackendUnavailable] * 10


@given(st.integers(1, 80), st.sets(st.integers(1, 80)))
def test_a_thorough_bisection_refuses_exactly_what_is_bad(count: int, bad: set[int]) -> None:
    """However many there are: each bad item has its own refusal, all others have their answers, in their order."""

    async def call(items: Sequence[int]) -> list[int]:
        return await backend(items)

    backend = Picky(bad)
    found = asyncio.run(bisect(range(1, count + 1), call, thorough=True))
    for item, answer in enumerate(found, start=1):
        assert isinstance(answer, BackendBadResponse) if item in bad else answer == -item
    assert backend.calls == 1 or backend.calls <= 2 * len(bad) * count.bit_length() + 1


async def test_a_server_that_fails_by_chance_is_soon_not_divided() -> None:
    """Calls that doubtfully fail, and whose parts are all answered, are divided three times; true poison always is."""
    chance, calls = Chance(), 0

    async def call(some: Sequence[str]) -> list[str]:
        nonlocal calls
        calls += 1
        if len(some) == 4 or "poison" in some:
            raise by_status("backend", 500).but(serves_others=True)
        return list(some)

    for _ in range(20):
        outcomes = await bisect(["a", "poison"], call, chance=chance)
        assert [isinstance(each, BackendError) for each in outcomes] == [False, True]
    for _ in range(VAIN):
        assert await bisect(["a", "b", "c", "d"], call, chance=chance) == ["a", "b", "c", "d"]
    before = calls
    with pytest.raises(BackendUnavailable):
        await bisect(["a", "b", "c", "d"], call, chance=chance)
    assert calls == before + 1
