"""The watermark reader has caught up: when it says so, on a scripted tail; questions, sharing, failures."""

import asyncio
import time

import pytest

from operators.delivery import table_reader as watermarks
from schemas.errors import BackendError, BackendTimeout, BackendUnavailable, DeadlinePassed
from tests.operators.delivery.catching_up import eventually, fails_at_once, fallen_behind, on_a_loop, recovered
from tests.operators.delivery.scripted import WITHIN
from tests.operators.delivery.scripted_topic import Topic, reading

pytestmark = pytest.mark.slow


@on_a_loop
async def test_nothing_is_caught_up_before_all_was_read() -> None:
    """At start calls fail at once; then the last record of each key is there, behind marks too."""
    topic = Topic()
    topic.answering.clear()
    for number in range(50):
        topic.put(b"%d" % number)
    with reading(topic) as reader:
        assert fails_at_once(reader)
        assert reader.of("a", "b") == ()
        topic.answering.set()
        await recovered(reader)
        assert reader.of("a", "b") == ("0:49",)
        assert reader.of("a", "c") == ()


@on_a_loop
async def test_a_call_sees_what_was_there_before_it() -> None:
    """Each record that was put before the call is read when it returns; a removal too."""
    topic = Topic()
    with reading(topic) as reader:
        await recovered(reader)
        for number in range(300):
            topic.put(b"%d" % number, marks=number % 3)
            await reader.caught_up(WITHIN)
            assert reader.of("a", "b") == (f"0:{number}",)
        topic.put(None)
        await reader.caught_up(WITHIN)
        assert reader.of("a", "b") == ()


@on_a_loop
async def test_calls_share_only_questions_that_begin_after_them() -> None:
    """Calls during a question wait for the next one, all for the same, and see what was put after the first began."""
    topic = Topic()
    with reading(topic) as reader:
        await recovered(reader)
        before = topic.questions
        topic.answering.clear()
        first = asyncio.create_task(reader.caught_up(WITHIN))
        await eventually(lambda: topic.questions == before + 1)
        topic.put(b"7")
        later = [asyncio.create_task(reader.caught_up(WITHIN)) for _ in range(20)]
        await asyncio.sleep(0)
        topic.answering.set()
        await asyncio.gather(first, *later)
        assert topic.questions == before + 2
        assert reader.of("a", "b") == ("0:7",)


@on_a_loop
async def test_whoever_began_before_the_last_question_need_not_call() -> None:
    """A record put before that moment is read then, without a call; a question that began earlier doesn't count, and
    one that failed neither.
    """
    topic = Topic()
    topic.put(b"6")
    with reading(topic) as reader:
        await recovered(reader)
        topic.put(b"7")
        moment = time.monotonic()
        assert not reader.read_since(moment)
        reader.ask()
        await eventually(lambda: reader.read_since(moment))
        assert reader.of("a", "b") == ("0:7",)
        before = topic.questions
        topic.answering.clear()
        reader.ask()
        await eventually(lambda: topic.questions == before + 1)
        topic.put(b"8")
        late = time.monotonic()
        topic.answering.set()
        await asyncio.sleep(0.1)
        assert not reader.read_since(late)
        reader.ask()
        await eventually(lambda: reader.read_since(late))
        assert reader.of("a", "b") == ("0:8",)
        topic.refusing = True
        reader.ask()
        await eventually(lambda: not reader.read_since(late))


@on_a_loop
async def test_nobody_waits_for_what_is_down() -> None:
    """The first call has its time-out, those after it none, until the broker answers again."""
    topic = Topic()
    with reading(topic, timeout=0.1) as reader:
        await recovered(reader)
        topic.answering.clear()
        with pytest.raises(BackendError):
            await reader.caught_up(WITHIN)
        assert fails_at_once(reader)
        before = topic.questions
        await eventually(lambda: topic.questions > before + 1)
        assert fails_at_once(reader)
        topic.put(b"7")
        topic.answering.set()
        await recovered(reader)
        assert reader.of("a", "b") == ("0:7",)


@on_a_loop
async def test_a_question_that_fails_ends_all_calls() -> None:
    """Those that wait for it, and those that wait for the next, long before their own time-out ends."""
    topic = Topic()
    with reading(topic) as reader:
        await recovered(reader)
        before = topic.questions
        topic.answering.clear()
        first = asyncio.create_task(reader.caught_up(WITHIN))
        await eventually(lambda: topic.questions == before + 1)
        second = asyncio.create_task(reader.caught_up(WITHIN))
        await asyncio.sleep(0)
        topic.refusing = True
        topic.answering.set()
        outcomes = await asyncio.gather(first, second, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [BackendUnavailable, BackendUnavailable]
        assert topic.questions == before + 1


@on_a_loop
async def test_a_short_deadline_blames_nobody() -> None:
    """A query with less time than the time-out fails by its own deadline, and leaves the reader as it is."""
    topic = Topic()
    with reading(topic) as reader:
        await recovered(reader)
        topic.answering.clear()
        with pytest.raises(DeadlinePassed):
            await reader.caught_up(0.01)
        topic.answering.set()
        await reader.caught_up(WITHIN)


@on_a_loop
async def test_a_reader_that_is_behind_is_bypassed_until_it_is_not() -> None:
    """Ends that aren't reached in time fail the calls, at once after the time-out of one; reading goes on."""
    topic = Topic()
    with reading(topic, timeout=0.1) as reader:
        await recovered(reader)
        topic.readable = False
        topic.put(b"7")
        with pytest.raises(BackendTimeout) as raised:
            await reader.caught_up(WITHIN)
        assert not isinstance(raised.value, DeadlinePassed)
        assert fails_at_once(reader)
        topic.readable = True
        await recovered(reader)
        assert reader.of("a", "b") == ("0:7",)
        topic.readable = False
        topic.put(b"8")
        with pytest.raises(DeadlinePassed):
            await reader.caught_up(0.01)
        await fallen_behind(reader)
        assert topic.tails == 1


@pytest.mark.parametrize("fault", ["readable", "answering"])
def test_a_tail_that_is_stuck_is_made_anew(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """One that fails for too long, or stands still, may be broken itself: another takes its place."""
    monkeypatch.setattr(watermarks, "_AGAIN", 0.3)
    topic = Topic()

    @on_a_loop
    async def stick() -> None:
        with reading(topic, timeout=0.05) as reader:
            await recovered(reader)
            topic.put(b"7")
            topic.readable, topic.refusing = fault != "readable", fault == "answering"
            with pytest.raises(BackendError):
                await reader.caught_up(WITHIN)
            await eventually(lambda: topic.tails >= 2)
            topic.readable, topic.refusing = True, False
            await recovered(reader)
            assert reader.of("a", "b") == ("0:7",)

    stick()


@on_a_loop
async def test_a_topic_that_was_made_anew_is_read_anew() -> None:
    """An end below the position, a poll that lost records, a tail that went back: all begin at the first record."""
    topic = Topic()
    for number in range(5):
        topic.put(b"%d" % number)
    with reading(topic) as reader:
        await recovered(reader)
        topic.readable = False
        topic.make_anew(b"8", b"9")
        with pytest.raises(BackendUnavailable):
            await reader.caught_up(WITHIN)
        assert reader.of("a", "b") == ("0:4",)
        topic.readable = True
        await recovered(reader)
        assert reader.of("a", "b") == ("0:9",)
        assert topic.tails == 2
        topic.broken = True
        topic.put(b"10")
        with pytest.raises(BackendUnavailable):
            await reader.caught_up(WITHIN)
        topic.broken = False
        await recovered(reader)
        assert reader.of("a", "b") == ("0:10",)
        tails = topic.tails
        topic.make_anew(b"5")
        await eventually(lambda: topic.tails > tails)
        await recovered(reader)
        assert reader.of("a", "b") == ("0:5",)


@on_a_loop
async def test_an_idle_reader_is_idle() -> None:
    """While nobody asks, no question is put, and polls are few; what comes is read all the same."""
    topic = Topic()
    with reading(topic) as reader:
        await recovered(reader)
        questions, polls = topic.questions, topic.polls
        topic.put(b"7", marks=0)
        await eventually(lambda: reader.of("a", "b") == ("0:7",))
        await asyncio.sleep(1)
        assert (topic.questions, topic.polls - polls < 20) == (questions, True)


@on_a_loop
async def test_nothing_is_asked_for_while_there_is_no_watermark() -> None:
    """No query asks the broker while nothing is cached; the first watermark is read, and then each query asks."""
    topic = Topic()
    with reading(topic) as reader:
        await recovered(reader)
        questions = topic.questions
        reader.ask()
        topic.put(b"7")
        await eventually(lambda: reader.of("a", "b") == ("0:7",))
        assert topic.questions == questions
        reader.ask()
        await eventually(lambda: topic.questions == questions + 1)


@on_a_loop
async def test_a_closed_reader_fails_calls() -> None:
    """Whoever waits at the end is told, and so is whoever comes later."""
    topic = Topic()
    with reading(topic) as reader:
        await recovered(reader)
        topic.readable = False
        topic.put(b"7")
        waiting = asyncio.create_task(reader.caught_up(WITHIN))
        polls = topic.polls
        await eventually(lambda: topic.polls > polls)
        await asyncio.to_thread(reader.close)
        with pytest.raises(BackendUnavailable):
            await waiting
        assert fails_at_once(reader)
