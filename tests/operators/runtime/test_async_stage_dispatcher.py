"""The dispatcher by itself: what gathers while a lane is busy, and who is woken when something has finished."""

import asyncio
import math
import threading
import time
from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from operators.runtime.dispatcher import LONGEST_PAUSE, BatchKey, Bounds, Dispatcher, pause_of
from operators.runtime.event_loop import PAUSE, EventLoopThread, Wakeup
from schemas.errors import BackendError
from tests.operators.delivery.scripted import WITHIN, until
from tests.operators.runtime.flowing import Asking

WIDE = Bounds(timeout=30, max_batch=64, max_concurrency=1)


class CountedWakeup(Wakeup):
    """The number of times that it was set."""

    __slots__ = ("pauses",)

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    @property
    def times(self) -> int:
        """The number of sets."""
        return len(self.pauses)

    def set(self, pause: float = PAUSE) -> None:
        """Count."""
        self.pauses.append(pause)
        super().set(pause)


class Gate:
    """A backend whose calls end when the test opens the gate."""

    def __init__(self) -> None:
        self.calls: list[tuple[BatchKey, list[int]]] = []
        self.open = False

    async def __call__(self, batch_key: BatchKey, queries: Sequence[int], timeout: float) -> list[int]:
        """Wait for the gate."""
        self.calls.append((batch_key, list(queries)))
        while not self.open:  # noqa: ASYNC110  opened from another thread
            await asyncio.sleep(0.001)
        return [-query for query in queries]


def asking(gate: Gate, deadline: Callable[[int], float] = lambda _: math.inf) -> Asking:
    """A stage that asks the gate."""
    return Asking(lambda _: None, gate, WIDE, deadline)


def test_requests_gather_while_their_lane_is_busy() -> None:
    """A free lane calls at once with what is there; what comes while it is busy goes together, lane by lane."""
    wakeup = CountedWakeup()
    calls, gate = EventLoopThread(wakeup), Gate()
    lane_of = {1: "a", 2: "a", 3: "b", 4: "a", 5: "b", 6: "b"}
    dispatcher = Dispatcher(asking(gate), calls)
    for item in lane_of:
        dispatcher.submit([(item, lane_of[item], item)])
    until(lambda: len(gate.calls) == 2)
    assert gate.calls == [("a", [1]), ("b", [3])]
    gate.open = True
    finished: list[tuple[int, int | BackendError]] = []

    def drained() -> bool:
        finished.extend(dispatcher.drain())
        return not dispatcher.outstanding

    until(drained)
    calls.close()
    assert sorted(gate.calls[2:]) == [("a", [2, 4]), ("b", [5, 6])]
    assert dict(finished) == {item: -item for item in lane_of}


def test_whatever_finishes_wakes_the_process() -> None:
    """An answer, and a deadline that has passed or passes, each set the wake-up event."""
    wakeup = CountedWakeup()
    calls, gate = EventLoopThread(wakeup), Gate()
    deadlines = {2: -1.0}

    def dispatching() -> Dispatcher[int, int]:
        return Dispatcher(asking(gate, lambda item: deadlines.get(item, math.inf)), calls)

    def woken(dispatcher: Dispatcher[int, int], item: int) -> None:
        before = wakeup.times
        dispatcher.submit([(item, "a", item)])
        drained(dispatcher)
        assert wakeup.times > before

    def drained(dispatcher: Dispatcher[int, int]) -> None:
        until(dispatcher.drain)
        # What is set belongs to the same turn of the loop as what finished, and comes after it.
        calls.run(asyncio.sleep(0), WITHIN)

    busy = dispatching()
    busy.submit([(1, "a", 1)])
    until(lambda: gate.calls)
    woken(busy, 2)
    deadlines[4] = time.monotonic() + 0.2
    woken(busy, 4)
    gate.open = True
    drained(busy)
    woken(dispatching(), 5)
    calls.close()


def test_what_waited_for_its_call_leaves_with_others() -> None:
    """An item that was called at once is passed on as soon as may be; one that waited for that call may wait on."""
    wakeup = CountedWakeup()
    calls, gate = EventLoopThread(wakeup), Gate()
    dispatcher = Dispatcher(asking(gate), calls)
    dispatcher.submit([(1, "a", 1)])
    dispatcher.submit([(2, "a", 2)])
    until(lambda: gate.calls)
    waits_until = time.monotonic() + 50 * PAUSE
    until(lambda: time.monotonic() > waits_until)
    gate.open = True
    until(lambda: wakeup.times == 2)
    calls.close()
    at_once, later = wakeup.pauses
    assert at_once == PAUSE < later <= LONGEST_PAUSE


@given(st.floats(0, 100), st.floats(-1, 100))
def test_nobody_waits_past_its_deadline_for_others(waited: float, left: float) -> None:
    """More than the usual pause is a small part of what it waited, and half of what is left at most."""
    pause = pause_of(waited, left)
    assert PAUSE <= pause <= LONGEST_PAUSE
    assert pause == PAUSE or (pause <= waited / 10 and pause <= left / 2)


def test_outstanding_is_what_was_not_drained() -> None:
    """An item counts until it is picked up, finished or not."""
    wakeup = CountedWakeup()
    calls, gate = EventLoopThread(wakeup), Gate()
    dispatcher = Dispatcher(asking(gate), calls)
    dispatcher.submit([(1, "a", 1), (2, "a", 2)])
    until(lambda: gate.calls)
    assert (dispatcher.drain(), dispatcher.outstanding) == ([], 2)
    gate.open = True
    until(lambda: wakeup.times)
    assert dispatcher.outstanding == 2
    picked_up: list[tuple[int, int | BackendError]] = []

    def all_picked_up() -> bool:
        picked_up.extend(dispatcher.drain())
        assert dispatcher.outstanding == 2 - len(picked_up)
        return not dispatcher.outstanding

    until(all_picked_up)
    calls.close()


def test_closing_cancels_what_is_under_way() -> None:
    """The loop's thread ends at once, with a call that would never end."""
    calls, gate = EventLoopThread(CountedWakeup()), Gate()
    dispatcher = Dispatcher(asking(gate), calls)
    dispatcher.submit([(1, "a", 1)])
    until(lambda: gate.calls)
    calls.close()
    assert calls.loop.is_closed()


def test_a_call_that_is_cancelled_before_it_began_gives_its_slot_back() -> None:
    """A deadline that passes in the moment in which the call is made leaves the lane free for the next."""
    calls, gate = EventLoopThread(CountedWakeup()), Gate()
    now = 0.0

    def pass_to(moment: float) -> None:
        nonlocal now
        now = moment

    def hold(moment: float) -> None:
        held.set()
        released.wait(WITHIN)
        pass_to(moment)

    setattr(calls.loop, "time", lambda: now)  # noqa: B010  the clock of the loop is the test's
    deadlines = {1: 1.0, 2: 2.0, 3: math.inf}
    dispatcher = Dispatcher(asking(gate, deadlines.__getitem__), calls, calls.loop.time)
    dispatcher.submit([(1, "b", 1)])
    until(lambda: gate.calls)
    # The loop is held until the second item has come. It and the first one's timer are of one turn, in which the second
    # deadline passes, too, when the call is made and has not begun.
    held, released = threading.Event(), threading.Event()
    calls.loop.call_soon_threadsafe(hold, 1.5)
    held.wait()
    dispatcher.submit([(2, "a", 2)])
    calls.loop.call_soon_threadsafe(pass_to, 2.5)
    released.set()
    late: list[tuple[int, int | BackendError]] = []

    def finished() -> int:
        late.extend(dispatcher.drain())
        return len(late)

    until(lambda: finished() == 2)
    gate.open = True
    dispatcher.submit([(3, "a", 3)])
    until(lambda: finished() == 3)
    assert late[-1] == (3, -3)
    calls.close()
