"""An event loop that is attended runs on the thread that waits, and on its own before and afterwards."""

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest
import structlog

from operators.runtime import event_loop
from operators.runtime.event_loop import LONGEST_WAIT, PAUSE, EventLoopThread, Wakeup

PATIENCE = 20.0


@pytest.fixture
def calls() -> Iterator[EventLoopThread]:
    """A loop, closed at the end."""
    made = EventLoopThread(Wakeup())
    yield made
    made.close()


async def here() -> str:
    """On which thread this runs."""
    await asyncio.sleep(0)
    return threading.current_thread().name


def waited(calls: EventLoopThread) -> int:
    """The number of waits until one says that the event was set."""
    until = time.monotonic() + PATIENCE
    count = 1
    while not calls.wakeup.wait():
        assert time.monotonic() < until
        count += 1
    return count


def test_calls_run_where_it_is_attended(calls: EventLoopThread) -> None:
    """The loop's work from another thread ends while the worker waits; before and behind it runs on its own thread."""
    assert calls.run(here(), PATIENCE) == "calls"
    ran: list[str] = []

    def asking() -> None:
        ran.append(calls.run(here(), PATIENCE))
        calls.wakeup.set()

    with calls.attend():
        while calls.wakeup.wait():
            pass
        other = threading.Thread(target=asking)
        other.start()
        waited(calls)
        other.join()
    assert ran == [threading.current_thread().name]
    assert calls.run(here(), PATIENCE) == "calls"


def test_what_is_handed_over_runs_at_once(calls: EventLoopThread) -> None:
    """A callback that sets the event ends the next wait, or that in which it runs; without, a wait ends by itself."""
    ran: list[int] = []

    def run(number: int) -> None:
        ran.append(number)
        calls.wakeup.set()

    with calls.attend():
        while calls.wakeup.wait():
            pass
        calls.submit(run, 7)
        assert ran == [7]
        assert waited(calls) == 1
        calls.loop.call_soon(run, 8)
        assert waited(calls) == 1
        assert ran == [7, 8]
        started = time.monotonic()
        assert not calls.wakeup.wait()
        assert time.monotonic() - started >= LONGEST_WAIT / 2


def test_an_event_that_was_set_early_is_not_lost(calls: EventLoopThread) -> None:
    """Set between two waits, from this thread or another, it ends the next one."""
    with calls.attend():
        while calls.wakeup.wait():
            pass
        calls.wakeup.set()
        assert waited(calls) == 1
        other = threading.Thread(target=calls.wakeup.set)
        other.start()
        other.join()
        assert waited(calls) == 1


def test_one_that_is_patient_waits_for_the_next(calls: EventLoopThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event that is set with a long pause ends no wait before it; the next one, without, ends the same wait."""
    ran: list[str] = []

    def patient() -> None:
        ran.append("patient")
        calls.wakeup.set(PATIENCE)
        # So that a wait that ended after the usual pause would be over by then.
        calls.loop.call_later(5 * PAUSE, impatient)

    def impatient() -> None:
        ran.append("impatient")
        calls.wakeup.set()

    monkeypatch.setattr(event_loop, "LONGEST_WAIT", PATIENCE)
    with calls.attend():
        assert calls.wakeup.wait()
        calls.submit(patient)
        assert calls.wakeup.wait()
        assert ran == ["patient", "impatient"]
        monkeypatch.undo()
        assert not calls.wakeup.wait()


def test_a_failure_gives_the_loop_its_thread_back(calls: EventLoopThread) -> None:
    """So that what is closed on it afterwards can be."""
    with pytest.raises(KeyError), calls.attend():
        raise KeyError
    assert calls.run(here(), PATIENCE) == "calls"


def test_background_work_begins_again_after_a_failure(calls: EventLoopThread) -> None:
    """A defect of it is told, and ends neither it nor the calls."""
    began: list[int] = []
    again = threading.Event()
    secret = "a text of a document"

    async def work() -> None:
        began.append(len(began))
        if len(began) < 3:
            raise OverflowError(secret)
        again.set()
        await asyncio.Event().wait()

    with structlog.testing.capture_logs() as logs:
        calls.keep("catalogue", work, pause=0.0)
        assert again.wait(PATIENCE)
    assert began == [0, 1, 2]
    assert [(each["event"], each["reason"]) for each in logs] == [
        ("background work failed", "catalogue: OverflowError")
    ] * 2
    assert all("test_attended.py" in each["where"] and secret not in str(each) for each in logs)
    assert calls.run(here(), PATIENCE) == "calls"
