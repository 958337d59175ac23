"""The offset tracker against a naive model: nothing lost, nothing answered twice, whatever the order."""

import base64
from collections.abc import Collection, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from operators.delivery.tracker import (
    METADATA_LIMIT,
    Commit,
    CommitPlan,
    OffsetTracker,
    RepeatedOffset,
    decode,
    encode,
)

offsets = st.integers(0, 2**62)


def tracker_of(seen: Iterable[int], position: int = 0) -> OffsetTracker:
    """A tracker that has seen `seen`."""
    tracker = OffsetTracker(Commit(position, ""))
    for offset in seen:
        tracker.see(offset)
    return tracker


def answered(tracker: OffsetTracker, done: Collection[int], limit: int = METADATA_LIMIT) -> CommitPlan:
    """Plan and apply."""
    plan = tracker.plan_commit(done, limit=limit)
    tracker.apply_commit(plan)
    return plan


class Partition(RuleBasedStateMachine):
    """A partition with gaps, read and answered in any order, by owners that come and go.

    The model is the log, and the set of what was committed as answered: nothing else.
    """

    def __init__(self) -> None:
        super().__init__()
        self.log: list[int] = []
        self.end = 0
        self.committed = Commit(0, "")
        self.done: set[int] = set()
        self.take_over()

    @rule()
    def take_over(self) -> None:
        """A new owner starts from the commit alone, whatever the last one had in flight."""
        self.tracker = OffsetTracker(self.committed)
        self.rest = [offset for offset in self.log if offset >= self.committed.offset]
        self.in_flight: set[int] = set()
        unread = [offset for offset in self.log if offset < self.committed.offset]
        assert set(unread) <= self.done, "behind the position lies what nobody answered"

    @rule(gap=st.integers(0, 300), count=st.integers(1, 12))
    def produce(self, gap: int, count: int) -> None:
        """Records arrive behind a gap of control records."""
        first = self.end + gap
        self.log += range(first, first + count)
        self.rest += range(first, first + count)
        self.end = first + count

    @precondition(lambda self: self.rest)
    @rule(count=st.integers(1, 12))
    def read(self, count: int) -> None:
        """The owner reads on; exactly what no commit has answered is new to it."""
        for offset in self.rest[:count]:
            assert self.tracker.see(offset) == (offset not in self.done)
            if offset not in self.done:
                self.in_flight.add(offset)
        self.rest = self.rest[count:]

    @precondition(lambda self: not self.rest)
    @rule(marks=st.integers(0, 5), taken=st.booleans())
    def pass_over(self, marks: int, taken: bool) -> None:
        """The owner has read all that there is, and its client stands behind marks; perhaps that is committed."""
        self.end += marks
        self.tracker.pass_over(self.end)
        assert self.tracker.advances == (not self.in_flight and self.end > self.committed.offset)
        if taken:
            plan = self.tracker.plan_commit(())
            self.tracker.apply_commit(plan)
            self.committed = plan.commit
            assert self.in_flight or plan.commit == Commit(max(self.end, self.committed.offset), "")

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data(), limit=st.sampled_from([8, 16, 40, METADATA_LIMIT]), taken=st.booleans())
    def answer(self, data: Any, limit: int, taken: bool) -> None:
        """Some answers are planned, a few for several messages; the broker takes the transaction or doesn't."""
        chosen = sorted(data.draw(st.lists(st.sampled_from(sorted(self.in_flight)), unique=True, min_size=1)))
        labels = data.draw(st.lists(st.integers(0, 6), min_size=len(chosen), max_size=len(chosen)))
        ended: dict[int, list[int]] = {}
        for offset, label in zip(chosen, labels, strict=True):
            # A label below 3 is that of one record for several messages.
            ended.setdefault(label if label < 3 else 10 + offset, []).append(offset)
        further = {first: rest for first, *rest in ended.values() if rest}
        plan = self.tracker.plan_commit([first for first, *_ in ended.values()], limit=limit, further=further)
        waiting = [[first, *further.get(first, ())] for first in plan.waiting]
        assert sorted([*plan.accepted, *(offset for group in waiting for offset in group)]) == chosen
        accepted = [group[-1] for group in ended.values() if group[0] in plan.accepted]
        assert not accepted or not waiting or max(accepted) < min(group[-1] for group in waiting)
        assert not plan.accepted or len(plan.commit.metadata) <= limit
        if taken:
            self.tracker.apply_commit(plan)
            self.committed = plan.commit
            self.done |= set(plan.accepted)
            self.in_flight -= set(plan.accepted)

    @invariant()
    def the_commit_says_exactly_what_is_done(self) -> None:
        """Position and metadata together name the answered records of the log, no more and no less."""
        named = set(decode(self.committed))
        assert {offset for offset in self.log if offset < self.committed.offset or offset in named} == self.done

    @invariant()
    def the_tracker_knows_what_is_in_flight(self) -> None:
        """An unanswered message is counted, and the position never passes any of it."""
        assert self.tracker.in_flight == len(self.in_flight)
        assert self.tracker.position == self.committed.offset
        assert all(offset >= self.tracker.position for offset in self.in_flight)


Partition.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
test_no_owner_loses_or_repeats = Partition.TestCase


@given(offsets, st.lists(st.integers(0, 400), unique=True))
def test_what_is_encoded_is_decoded(position: int, ahead: list[int]) -> None:
    """Any rising offsets at or beyond any position come back as they were."""
    done = sorted(position + gap for gap in ahead)
    commit = encode(position, done)
    assert commit.offset == position
    assert decode(commit) == done


@given(offsets, st.integers(1, 2**61), st.integers(1, 2**61))
def test_wide_gaps_survive(position: int, first: int, second: int) -> None:
    """Offsets that lie as far apart as a log allows come back."""
    done = [position + first, position + first + second]
    assert decode(encode(position, done)) == done


def test_nothing_done_needs_no_metadata() -> None:
    """Without done offsets beyond the position the metadata is empty, in both directions."""
    assert encode(7, []) == Commit(7, "")
    assert decode(Commit(7, "")) == []


def test_an_encoding_by_hand() -> None:
    """Runs are gap and length in turn: 10, 11, 12 and 300 beyond 5 are the varints 5 3 287 1."""
    assert encode(5, [10, 11, 12, 300]).metadata == "rs1:" + base64.b64encode(bytes([5, 3, 0x9F, 0x02, 1])).decode()


def foreign(*numbers: int) -> str:
    """Metadata with our mark and the given bytes."""
    return "rs1:" + base64.b64encode(bytes(numbers)).decode()


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param("some other tool", id="another tool's"),
        pytest.param("rs2:BQM=", id="another version"),
        pytest.param("rs1:BQM", id="not base64"),
        pytest.param("rs1:BQM=\n", id="base64 with a line break"),
        pytest.param("rs1:日本", id="not ASCII"),
        pytest.param(foreign(5, 0x83), id="a number cut short"),
        pytest.param(foreign(5, 3, 2), id="a gap without a length"),
        pytest.param(foreign(5, 0), id="an empty run"),
        pytest.param(foreign(5, 1, 0, 1), id="two runs that touch"),
        pytest.param(foreign(5, *[0xFF] * 9, 0x01), id="a run longer than a log"),
        pytest.param(foreign(5, *[0xFF] * 5, 0x01), id="a run longer than memory"),
        pytest.param(foreign(5, 0x83, 0x00), id="a number written too long"),
    ],
)
def test_metadata_that_we_did_not_write_says_nothing(metadata: str) -> None:
    """Foreign or damaged metadata names no offset as done, and takes neither memory nor the process."""
    assert decode(Commit(100, metadata)) == []
    tracker = OffsetTracker(Commit(100, metadata))
    assert all(tracker.see(offset) for offset in range(100, 120))


@given(offsets, st.text(max_size=40) | st.binary(max_size=40).map(lambda data: foreign(*data)))
def test_any_metadata_can_be_read(position: int, metadata: str) -> None:
    """Whatever stands in a commit, reading it gives what encodes to exactly that, or nothing."""
    done = decode(Commit(position, metadata))
    assert done == [] or encode(position, done).metadata == metadata


def test_a_plan_changes_nothing() -> None:
    """Planning twice gives the same, and only `apply` moves the position."""
    tracker = tracker_of([3, 5, 9], 3)
    assert tracker.plan_commit([3, 5]) == tracker.plan_commit([5, 3]) == CommitPlan(Commit(9, ""), (3, 5), ())
    assert (tracker.position, tracker.in_flight) == (3, 3)
    answered(tracker, [3, 5])
    assert (tracker.position, tracker.in_flight) == (9, 1)
    assert answered(tracker, [9]).commit == Commit(10, "")


def test_marks_behind_the_last_record_are_passed() -> None:
    """By hand: behind 5 and the marks at 6 and 7 the position is 8 as soon as 5 is done, and not before."""
    tracker = tracker_of([5], 5)
    tracker.pass_over(8)
    assert not tracker.advances
    assert tracker.plan_commit(()).commit == Commit(5, "")
    assert answered(tracker, [5]).commit == Commit(8, "")
    assert (tracker.next_offset, tracker.advances) == (8, False)
    tracker.pass_over(9)
    assert tracker.advances
    assert answered(tracker, []).commit == Commit(9, "")


def test_what_an_earlier_owner_has_answered_needs_no_answer() -> None:
    """By hand: 3 and 4 are done in the metadata of a commit at 3; once read, the position moves on by itself."""
    tracker = OffsetTracker(encode(3, [3, 4]))
    assert not tracker.advances
    assert [tracker.see(offset) for offset in (3, 4)] == [False, False]
    assert tracker.advances
    assert answered(tracker, []).commit == Commit(5, "")


def test_done_beyond_a_gap_travels_in_the_metadata() -> None:
    """By hand: of 0, 2, 4, 7 the offsets 2 and 7 are done, so the position is 0 and the metadata names 2 and 7."""
    plan = tracker_of([0, 2, 4, 7]).plan_commit([2, 7])
    assert plan.commit.offset == 0
    assert decode(plan.commit) == [2, 7]


def test_answers_that_do_not_fit_wait_for_a_later_transaction() -> None:
    """Over the limit the highest wait, lowest first in the plan, and they are accepted once the hole is closed."""
    tracker = tracker_of(range(0, 40, 2))
    plan = answered(tracker, range(2, 40, 2), limit=16)
    assert plan.accepted == tuple(range(2, 2 + 2 * len(plan.accepted), 2))
    assert plan.waiting == tuple(range(plan.accepted[-1] + 2, 40, 2))
    assert len(plan.commit.metadata) <= 16
    later = answered(tracker, [0, *plan.waiting], limit=16)
    assert later.waiting == ()
    assert later.commit == Commit(39, "")


def test_none_fits_is_a_plan_without_answers() -> None:
    """With no room at all everything waits, and the plan commits where the partition stood."""
    tracker = tracker_of([0, 1, 2])
    assert tracker.plan_commit([1, 2], limit=4) == CommitPlan(Commit(0, ""), (), (1, 2))


@pytest.mark.parametrize("first", [0, 2**40])
def test_the_most_that_may_be_in_flight_fits(first: int) -> None:
    """1,024 in flight with every second one done is the worst pattern, and its metadata is within 4,096 bytes."""
    assert METADATA_LIMIT == 4096
    plan = tracker_of(range(first, first + 1024), first).plan_commit(range(first + 1, first + 1024, 2))
    assert plan.waiting == ()
    assert 0 < len(plan.commit.metadata) <= METADATA_LIMIT


def test_an_offset_that_does_not_rise_is_told_apart() -> None:
    """A repeat, and an offset below what was seen or below the position, raise RepeatedOffset and change nothing."""
    tracker = tracker_of([10, 12], 10)
    for offset in (12, 11, 9):
        with pytest.raises(RepeatedOffset, match=f"offset {offset}, and not 13 or above"):
            tracker.see(offset)
    assert (tracker.next_offset, tracker.in_flight) == (13, 2)
    with pytest.raises(RepeatedOffset, match="offset 4, and not 5 or above"):
        OffsetTracker(Commit(5, "")).see(4)


def test_an_answer_that_is_not_in_flight_is_an_error() -> None:
    """An offset never read, and one that is done already, can't be planned."""
    tracker = tracker_of([0, 1, 2])
    answered(tracker, [1])
    for offset in (1, 5):
        with pytest.raises(ValueError, match=f"offset {offset} is not in flight"):
            tracker.plan_commit([offset])
